from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "ledger_quality"
REASON = "pandera is not installed: pip install -r examples/ledger_quality/requirements.txt"


def run(*arguments):
    """Python as a user calls it in the example's folder."""
    return subprocess.run([sys.executable, *arguments], cwd=FOLDER, capture_output=True, text=True)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """The ledger that the example's contract gives."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.parquet"
    options = ("-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={FOLDER}")
    done = run("-m", "pytest", *options, "--longctx-contract=contract.yaml", f"--longctx-ledger={path}")
    assert done.returncode == 0, done.stdout + done.stderr
    return pq.read_table(path)


@pytest.fixture
def check(tmp_path):
    """Exit status and lines of the example's script for a ledger."""
    pytest.importorskip("pandera", reason=REASON)

    def check(table):
        pq.write_table(table, tmp_path / "l.parquet")
        done = run("check_ledger.py", str(tmp_path / "l.parquet"))
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout.splitlines()

    return check


def test_the_contract_gives_a_ledger_with_its_slices(ledger):
    assert ledger.num_rows == 990
    assert set(ledger["slice"].to_pylist()) == {"coding", "everyday", "support"}


def test_the_example_keeps_its_rules(ledger, check):
    assert check(ledger) == (0, ["990 samples keep every rule"])


def test_one_source_alone_is_told(ledger, check):
    coding = ledger.filter(pc.field("slice") == "coding")
    assert check(coding) == (
        1,
        ["no_slice_dominates: 310 × broken, first by coding-0001, coding-0002, coding-0003"],
    )


def test_each_broken_rule_is_told_with_its_samples(ledger, check):
    first = ledger.slice(0, 1).to_pylist()[0]
    changed = {**first, "id": "x", "answer": 2, "total": first["total"] + 1, "decision": "overflow"}
    rows = pa.Table.from_pylist([changed], ledger.schema)
    status, lines = check(pa.concat_tables([rows, ledger, ledger.slice(0, 1)]))
    assert status == 1
    assert sorted(lines) == [
        "field_uniqueness: 2 × broken, first by coding-0001, coding-0001",
        "greater_than_or_equal_to(3): 1 × broken, first by x",
        "isin(['fit', 'truncate']): 1 × broken, first by x",
        "parts_are_the_whole: 1 × broken, first by x",
    ]
