from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.report import ledger_file
from pytest_longctx.report.ledger_file import COLUMNS, combine, schema, write_part
from pytest_longctx.reporting import Reporting
from pytest_longctx.tokens.columns import Repeated

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def written(evidence, tmp_path):
    evidence.dataset = evidence.dataset_rows
    findings = evidence.measured.findings
    findings.witnesses = {"supervision::turn_end": [SimpleNamespace(id="b"), SimpleNamespace(id="d")]}

    def write():
        target = tmp_path / "out" / "ledger.parquet"
        combine([write_part(evidence, target)], target)
        assert [path.name for path in target.parent.iterdir()] == ["ledger.parquet"]
        return parquet.read_table(target)

    return write


def test_one_row_a_sample(written):
    table = written()
    assert table.schema.equals(schema())
    assert table.schema.names == list(COLUMNS)
    assert table.to_pylist()[2:] == [
        {
            "contract": "c.yaml",
            "id": "c",
            "file": "d.jsonl",
            "slice": "y",
            "template": 0,
            "prompt": 4,
            "supervised": 6,
            "answer": 6,
            "total": 10,
            "turns": 1,
            "decision": "truncate",
            "kept": 4,
            "packed_row": None,
            "reasons": [],
        },
        {
            "contract": "c.yaml",
            "id": "d",
            "file": "d.jsonl",
            "slice": "x",
            "template": 0,
            "prompt": 18,
            "supervised": 2,
            "answer": 2,
            "total": 20,
            "turns": 1,
            "decision": "overflow",
            "kept": 0,
            "packed_row": None,
            "reasons": ["window::prompt_does_not_fit", "supervision::turn_end"],
        },
    ]


def test_blocks_join_without_a_seam(written, monkeypatch):
    whole = written()
    monkeypatch.setattr(ledger_file, "BLOCK", 3)
    assert written().equals(whole)


def test_every_column_says_what_it_holds():
    metadata = {field.name: field.metadata[b"description"] for field in schema()}
    assert all(metadata[name].decode() == meaning for name, (_, _, meaning) in COLUMNS.items())


def test_without_a_window_nothing_is_decided(evidence, write_contract, tmp_path):
    evidence.contract = write_contract(text="contract: 1\ndataset: {path: d.jsonl, shape: lengths}\n")
    evidence.dataset = []
    evidence.measured.ledger = replace(evidence.measured.ledger, slices=Repeated([""] * 4))
    (row, *_) = parquet.read_table(write_part(evidence, tmp_path / "l")).to_pylist()
    assert (row["decision"], row["kept"], row["file"], row["reasons"]) == (None, None, None, [])
    assert row["slice"] is None


def test_the_empty_value_of_the_slice_column_is_no_null(evidence, written):
    evidence.measured.ledger = replace(evidence.measured.ledger, slices=Repeated(["", "x", "", "x"]))
    assert written()["slice"].to_pylist() == ["", "x", "", "x"]


def test_no_part_without_samples(contract, tmp_path):
    assert write_part(SimpleNamespace(contract=contract), tmp_path / "l") is None


@pytest.mark.parametrize("order", [("window", "packing"), ("packing", "window")])
def test_of_two_processes_the_one_that_packed_is_kept(evidence, tmp_path, pytestconfig, monkeypatch, order):
    """As with xdist: the check of the window runs in one worker, those of packing in the other."""
    target, reporting = tmp_path / "ledger.parquet", Reporting(pytestconfig)
    evidence.dataset = evidence.dataset_rows
    for process, section in enumerate(order):
        monkeypatch.setattr("os.getpid", lambda process=process: process)
        if section == "packing":
            evidence.audit = SimpleNamespace(packed_row=np.array([1, 0, 0, -1], np.int32))
        value = {"contract": "c.yaml", "summary": {}, "audited": section == "packing"}
        reporting._gather({**value, "part": str(write_part(evidence, target))})
        vars(evidence).pop("audit", None)
    (kept,) = reporting.parts.values()
    assert combine([Path(kept["part"])], target) == 4
    assert parquet.read_table(target).column("packed_row").to_pylist() == [1, 0, 0, None]
    assert [path.name for path in tmp_path.iterdir() if "ledger" in path.name] == ["ledger.parquet"]
