"""Plain data for reports: a contract, records of its checks, evidence, a report."""

from __future__ import annotations

import datetime as dt
from importlib import import_module
from pkgutil import walk_packages
from types import SimpleNamespace

import numpy as np
import pytest

import pytest_longctx
from pytest_longctx.contract import load_contract
from pytest_longctx.report.evidence_summary import summarize
from pytest_longctx.report.json_report import build
from pytest_longctx.report.run import ContractRun
from pytest_longctx.tokens.columns import Repeated, Texts
from pytest_longctx.tokens.ledger import Ledger
from pytest_longctx.window import WindowPolicy, WindowSamples, plan_window

# pytester drops what a run in this process imports: numpy cannot be imported twice, the package need not be.
for module in walk_packages(pytest_longctx.__path__, "pytest_longctx."):
    if module.name.split(".")[1] in (
        "baseline",
        "check",
        "checks",
        "contract",
        "dataset",
        "evidence",
        "nodes",
        "report",
    ):
        import_module(module.name)

NOON = dt.datetime(2027, 1, 31, 12, tzinfo=dt.timezone.utc)
CONTRACT = """\
contract: 1
name: sft-4k
description: Support <b>chats</b>
dataset: {path: d.jsonl, shape: lengths, slices: source}
lengths:
  short_threshold: 4
  long_threshold: 8
  limits: {max_tokens: 16}
window:
  target_context_len: 8
  min_kept_supervised_tokens: 2
  max_supervision_loss_ratio: 0.5
  limits: {max_overflow_ratio: 0.25}
"""


@pytest.fixture
def write_contract(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(more="", name="c.yaml", text=CONTRACT):
        (tmp_path / name).write_text(text + more, encoding="utf-8")
        return load_contract(name)

    return write


@pytest.fixture
def contract(write_contract):
    return write_contract()


@pytest.fixture
def record():
    """A record of a check; keywords replace its values."""

    def make(check="window::max_overflow_ratio", outcome="passed", **values):
        section, name, *part = check.split("::")
        return {
            "check": check,
            "outcome": outcome,
            "headline": f"{name} 1 %",
            "measured": 0.01,
            "limit": 0.02,
            "unit": "ratio",
            "headroom": 0.5,
            "least": False,
            "context": [],
            "witnesses": [],
            "more": 0,
            "advice": "",
            "error": None,
            "contract": "c.yaml",
            "line": 13,
            "section": section,
            "name": name,
            "slice": part[0] if part else None,
            "waiver": None,
            **values,
        }

    return make


@pytest.fixture
def failure(record):
    """A failed check whose row ids are markup and commands."""
    return record(
        outcome="failed",
        headline="max_overflow_ratio 50 % > 25 %  (2 of 4 samples)",
        measured=0.5,
        limit=0.25,
        headroom=-1.0,
        context=["window 8 = template + prompt + supervised"],
        witnesses=[
            {"id": "<script>alert(1)</script>", "total": 9120, "reason": None},
            {"id": "a|b`c::error::\x1b[31m\u202e", "total": 20, "reason": "prompt does not fit"},
        ],
        more=3,
        advice="drop the 2 rows",
    )


@pytest.fixture
def report(contract):
    """A report of one contract."""

    def make(*records, evidence=None, **options):
        return build([ContractRun(contract, list(records), evidence or {})], NOON, **options)

    return make


# Samples of 3, 8, 10 and 20 tokens: prompts of 1, 2, 4 and 18 tokens, the rest supervised.
TOTAL, PROMPT = np.array([3, 8, 10, 20]), np.array([1, 2, 4, 18])


@pytest.fixture
def evidence(contract):
    """What an Evidence has made: a window of 8 cuts the third sample to 4 of 6 supervised tokens."""
    supervised = TOTAL - PROMPT
    ledger = Ledger(
        ids=Texts(["a", "b", "c", "d"]),
        slices=Repeated(["x", "y", "y", "x"]),
        template=np.zeros(4, np.int32),
        prompt=PROMPT.astype(np.int32),
        supervised=supervised.astype(np.int32),
        answer=supervised.astype(np.int32),
        total=TOTAL.astype(np.int32),
        turns=np.stack([PROMPT, TOTAL], 1).astype(np.int32),
        turn_offsets=np.array([0, 1, 2, 3, 4]),
    )
    columns = WindowSamples.of(TOTAL, supervised, PROMPT, TOTAL)
    findings = SimpleNamespace(counts={}, witnesses={})
    measured = SimpleNamespace(ledger=ledger, rows=5, rejected={"broken_json": 1}, findings=findings)
    measured.problems = [SimpleNamespace(id="d.jsonl:5")]
    rows = [SimpleNamespace(id=name, file="d.jsonl") for name in ("a", "b", "broken", "c", "d")]
    return SimpleNamespace(
        contract=contract,
        measured=measured,
        columns=columns,
        plan=plan_window(columns, 8, WindowPolicy(2, 0.5)),
        dataset_rows=rows,
        failures={},
    )


@pytest.fixture
def drawn(evidence):
    """The summary of all evidence that any picture is made of."""
    summary = summarize(evidence)
    segments = [
        {"id": "$a_1$", "start": 0, "end": 3, "supervised": 2},
        {"id": "b", "start": 3, "end": 8, "supervised": 1},
    ]
    summary["packing"] = {
        "maker": "ffd",
        "capacity": 10,
        "rows": 2,
        "row_tokens": 18,
        "utilization": 0.9,
        "padding": 2,
        "occupancy": [0] * 18 + [1, 1],
        "example": {"row": 0, "width": 8, "segments": segments},
    }
    scores = {"long_context_score": 0.4, "short_context_score": 0.6}
    summary["curriculum"] = {
        "stages": [
            {"name": name, "target_context_len": size, **scores} for name, size in (("a", None), ("b", 8192))
        ]
    }
    summary["gpu"] = {"lengths": [128, 256], "step_ms": [20.0, 30.0], "peak_memory_gb": [1.0, 1.5]}
    return summary
