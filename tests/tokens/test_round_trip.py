"""Why the trainers' loader refuses files, without a word of their rows."""

from __future__ import annotations

import json

import pyarrow
import pytest

from pytest_longctx.tokens.round_trip import LoaderRefusal, load_files

datasets = pytest.importorskip("datasets", reason="datasets is not installed")


SILENT = "ArrowInvalid, whose text may quote rows: call load_dataset on them to read it"


def written(folder, kind, *values):
    """One file per value, each of one row."""
    files = [folder / f"{number}.{kind}" for number in range(len(values))]
    for file, value in zip(files, values, strict=True):
        if kind == "parquet":
            datasets.Dataset.from_list([value]).to_parquet(str(file))
        else:
            file.write_text(json.dumps(value) + "\n", encoding="utf-8")
    return files


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("first", "later", "told"),
    [
        (True, "row's text", SILENT),  # pyarrow: Failed to parse value: row's text
        (1, "row's text", SILENT),
        ({"a": True}, {"a": "row's text"}, SILENT),
        ("a", ["row's text"], "Couldn't cast array of type list<…> to string"),
        ({"a": 1}, {"row's text": "b"}, "Couldn't cast array of type struct<…>"),
        (None, {"row's text": 1}, "Couldn't cast array of type struct<…> to null"),
    ],
)
def test_the_reason_of_a_refusal(tmp_path, capfd, caplog, kind, first, later, told):
    """Without a word of the rows, nor in a line of a log."""
    files = written(tmp_path, kind, {"a": "x", "c": first}, {"a": "x", "c": later})
    capfd.readouterr()  # bars of writing
    level = datasets.utils.logging.get_verbosity()
    with pytest.raises(LoaderRefusal) as refusal:
        load_files(datasets, files, tmp_path / "cache")
    assert str(refusal.value) == told
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert datasets.utils.logging.get_verbosity() == level


def test_other_columns_are_named(tmp_path):
    files = written(tmp_path, "jsonl", {"a": 1, "c": 2}, {"a": 1, "b": 2})
    with pytest.raises(LoaderRefusal, match=r"^other columns: there are 1 new columns \(\{'b'\}\)$"):
        load_files(datasets, files, tmp_path / "cache")


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
        (ValueError("An error occurred while generating"), f"ValueError{SILENT[12:]}"),
        (StopIteration(), f"StopIteration{SILENT[12:]}"),
        (TypeError("'a' failed. Couldn't cast array of type x"), f"TypeError{SILENT[12:]}"),
        (
            # What pyarrow raises for a cast that it does not know.
            pyarrow.ArrowNotImplementedError("Unsupported cast from\nlist<a>: b> to utf8 (no cast)"),
            "Unsupported cast from list<…> to utf8 (no cast)",
        ),
        (TypeError("Couldn't cast array of type " + "x" * 200), "Couldn't cast array of type " + "x" * 172),
    ],
)
def test_only_words_of_types_are_told(tmp_path, error, told):
    with pytest.raises(LoaderRefusal) as refusal:
        load_files(Refusing(error), [tmp_path / "a.jsonl"], tmp_path)
    assert str(refusal.value) == told
