"""The example of long answers: what TRL does with answers behind the window, and what the items say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence

from .conftest import EXAMPLES, failing

pytest.importorskip("trl")

LONG = [f"long-{number}" for number in range(1, 5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    copy = tmp_path_factory.mktemp("examples")
    for name in ("tokenizer", "long_answers"):
        shutil.copytree(EXAMPLES / name, copy / name)
    shutil.copy(EXAMPLES / "chatml.jinja", copy)
    subprocess.run([sys.executable, copy / "long_answers" / "make_data.py"], check=True)
    return copy / "long_answers"


def test_four_of_five_packed_rows_train_nothing(folder):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--longctx-contract=packed.yaml"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    failed = [line.split()[1] for line in lines if line.startswith("FAILED ")]
    assert failed == [
        f"packed.yaml::{check}"
        for check in (
            "window::max_overflow_ratio",
            "packing::sample_conservation",
            "packing::supervision_per_row",
        )
    ]
    assert "delivered by trainer trl_sft: 5 rows, 5 batch rows" in lines
    assert "they hold 262,144 of 263,248 tokens" in lines
    for number, name in enumerate(LONG):
        assert f"row {number} {number} ≥ 1 target 0 {name}" in lines
        assert any(line.startswith(f"{name} no token 65,536 tokens in a batch") for line in lines)


def test_without_packing_the_rows_are_gone(folder):
    result = Evidence(load_contract(folder / "unpacked.yaml")).audit
    assert failing(SimpleNamespace(audit=result)) == {"sample_conservation"}
    assert [(w.id, w.found, w.note) for w in result.witnesses["sample_conservation"]] == [
        (name, "dropped without a count", "rejected by the window") for name in LONG
    ]
    assert result.rows == 20
