from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_longctx.gpu import GpuError, RecordError, measure, read_json
from pytest_longctx.gpu.record import Steps, complete, reserve


def test_median_and_p95_are_nearest_rank():
    """Of 1 to 20 the 19th is the 95th percentile; of 1 to 10 the 10th."""
    assert Steps.of(list(range(20, 0, -1)), [], []).p95_seconds == 19
    ten = Steps.of([float(n) for n in range(1, 11)], [], [])
    assert (ten.p95_seconds, ten.median_seconds) == (10, 5.5)


def test_nan_is_null_in_the_file(tmp_path, terms):
    record = measure(terms(), "dry_run")
    path = tmp_path / "a.json"
    reserve(replace(record, execution={"nan": float("nan"), "most": float("inf")}), path)
    assert json.loads(path.read_text())["execution"] == {"nan": None, "most": None}


def test_a_record_is_never_written_over(tmp_path, terms):
    path = tmp_path / "runs" / "first.json"
    record = measure(terms(), "dry_run", record_path=path)
    before = path.read_bytes()
    with pytest.raises(RecordError, match=r"first\.json: there is a record of this label already"):
        measure(terms(), "dry_run", record_path=path)
    assert path.read_bytes() == before
    assert json.loads(before) == json.loads(json.dumps(record.to_json()))
    assert json.loads(before)["label"] == "first"
    assert [file.name for file in path.parent.iterdir()] == ["first.json"]


def test_a_record_that_cannot_be_written(tmp_path, terms):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        measure(terms(), "dry_run", record_path=tmp_path / "file" / "a.json")
    with pytest.raises(RecordError, match="cannot be written"):
        complete(measure(terms(), "dry_run"), tmp_path / "none" / "a.json")


def test_a_run_that_is_killed_leaves_its_record(tmp_path, terms, device):
    def killed(_mode):
        raise KeyboardInterrupt

    path = tmp_path / "a.json"
    with pytest.raises(KeyboardInterrupt):
        measure(terms(), "real", record_path=path, find_device=killed)
    left = read_json(path)
    assert left["failure"]["kind"] == "interrupted"
    assert (left["decision"], left["evidence"]) == ("not_measured", "none")
    assert {check["outcome"] for check in left["checks"].values()} == {"failed"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such record"),
        ("{", "cannot be read"),
        ("[]", "schema version None"),
        ('{"schema_version": 99}', "schema version 99"),
    ],
)
def test_what_is_no_record(tmp_path, content, message):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RecordError, match=message):
        read_json(path)


def test_refused_under_xdist(tmp_path, terms):
    with pytest.raises(GpuError, match="pytest-xdist"):
        measure(terms(), "cpu", under_xdist=True, record_path=tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []
