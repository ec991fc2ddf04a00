"""Why the trainers' loader refuses files, in its own words."""

from __future__ import annotations

import json

import pytest

from pytest_longctx.tokens.round_trip import LoaderRefusal, load_files

datasets = pytest.importorskip("datasets", reason="datasets is not installed")


@pytest.mark.parametrize(
    ("first", "later", "told"),
    [
        ({"a": 1, "c": 2}, {"a": 1, "b": 2}, "other columns: there are 1 new columns ({'b'})"),
        ({"a": 1}, {"a": "a row's text"}, "Failed to parse string: '…' as a scalar of type int64"),
    ],
)
def test_the_reason_of_a_refusal(tmp_path, first, later, told):
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file, row in zip(files, (first, later), strict=True):
        file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(LoaderRefusal) as refusal:
        load_files(datasets, files, tmp_path / "cache")
    assert told in str(refusal.value)
    assert "row's text" not in str(refusal.value)


class Refusing:
    """`datasets` that raises one error."""

    def __init__(self, error):
        self.error, self.utils = error, datasets.utils

    def __getattr__(self, name):
        return getattr(datasets, name)

    def load_dataset(self, *given, **named):
        raise self.error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("An error occurred while generating\n\nOther\ncolumns.\n\nSee docs"), "Other columns."),
        (ValueError("Could not convert 'a\n\nb' with type str"), "Could not convert '…' with type str"),
        (ValueError("x" * 300), "x" * 200),
        (StopIteration(), "StopIteration"),
        (ValueError("An error occurred while generating"), "ValueError"),
    ],
)
def test_the_paragraph_that_tells(tmp_path, error, told):
    with pytest.raises(LoaderRefusal) as refusal:
        load_files(Refusing(error), [tmp_path / "a.jsonl"], tmp_path)
    assert str(refusal.value) == told
