from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.report.evidence_summary import bin_edges, merge, summarize
from pytest_longctx.report.offenders import MOST_IDS, offenders
from pytest_longctx.tokens.columns import Repeated


def test_what_nobody_asked_for_stays_unmade(contract):
    summary = summarize(SimpleNamespace(contract=contract))
    assert summary["provenance"]["dataset"] is None
    assert summary["provenance"]["window"] == 8
    assert "numpy" in summary["provenance"]["libraries"]
    assert {summary[name] for name in ("ledger", "lengths", "window", "packing")} == {None}
    assert summary["offenders"] == {}


def test_the_ledger_in_sums(evidence):
    assert summarize(evidence)["ledger"] == {
        "rows": 5,
        "samples": 4,
        "rejected": {"broken_json": 1},
        "turns": 4,
        "tokens": {"template": 0, "prompt": 25, "supervised": 16, "answer": 16, "total": 41},
    }


def test_the_lengths(evidence):
    lengths = summarize(evidence)["lengths"]
    assert {name: lengths[name] for name in ("shortest", "p50", "p95", "longest")} == {
        "shortest": 3,
        "p50": 8,
        "p95": 20,
        "longest": 20,
    }
    assert sum(lengths["counts"]) == 4
    assert (lengths["short_threshold"], lengths["long_threshold"], lengths["window"]) == (4, 8, 8)
    held = [edge for edge, count in zip(lengths["edges"], lengths["counts"], strict=False) if count]
    assert held == [3, 8, 10, 20]  # few lengths: a bin for each


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 5000), st.integers(0, 100_000))
def test_bins_hold_every_length(shortest, more):
    edges = bin_edges(shortest, shortest + more)
    assert edges == sorted(set(edges))
    assert edges[0] <= shortest
    assert edges[-1] > shortest + more
    assert len(edges) <= 50


def test_slices_by_size_then_name(evidence):
    first, second = summarize(evidence)["slices"]
    assert (first["slice"], first["samples"], first["tokens"], first["longest"]) == ("x", 2, 23, 20)
    assert (first["overflow_ratio"], first["kept_supervision_ratio"]) == (0.5, 0.5)
    assert (second["slice"], second["overflow_ratio"]) == ("y", 0.0)
    assert second["kept_supervision_ratio"] == pytest.approx(10 / 12)


def test_no_slices_without_a_column(evidence, write_contract):
    evidence.contract = write_contract(text="contract: 1\ndataset: {path: d.jsonl, shape: lengths}\n")
    assert summarize(evidence)["slices"] is None


def test_the_empty_value_is_a_slice(evidence):
    evidence.measured.ledger = replace(evidence.measured.ledger, slices=Repeated([""] * 4))
    assert [(one["slice"], one["samples"]) for one in summarize(evidence)["slices"]] == [("", 4)]


def packed(row_lengths=None, *, rows_hidden=False):
    pieces = SimpleNamespace(start=np.array([0, 3, 12]), end=np.array([3, 8, 20]))
    labels = np.array([-100, 1, 1, -100, -100, 1, 1, 1, *[-100] * 12])
    view = SimpleNamespace(
        batch=SimpleNamespace(width=10), pieces=pieces, labels=labels, first_row=4, name=lambda at: f"at {at}"
    )
    return SimpleNamespace(
        rows=2,
        row_tokens=18,
        width_tokens=20,
        piece_tokens=18,
        example=view,
        counts={},
        row_lengths=row_lengths,
        rows_hidden=rows_hidden,
    )


def test_the_packing_with_an_example_row(evidence):
    evidence.audit = packed()
    evidence.pipeline = SimpleNamespace(maker="ffd + block_mask", expected=SimpleNamespace(capacity=10))
    summary = summarize(evidence)["packing"]
    assert summary["utilization"] == 0.9
    assert summary["padding"] == 2
    assert summary["occupancy"] is None
    assert summary["example"] == {
        "row": 4,
        "width": 10,
        "segments": [
            {"id": "at 0", "start": 0, "end": 3, "supervised": 2},
            {"id": "at 3", "start": 3, "end": 8, "supervised": 3},
        ],
    }


def test_occupancy_where_row_lengths_were_recorded(evidence):
    evidence.audit = packed([10, 8, 12, 0])
    evidence.pipeline = SimpleNamespace(maker="m", expected=SimpleNamespace(capacity=10))
    occupancy = summarize(evidence)["packing"]["occupancy"]
    assert len(occupancy) == 20
    assert {step: count for step, count in enumerate(occupancy) if count} == {0: 1, 16: 1, 19: 2}


def test_rows_that_were_not_seen_have_no_numbers(evidence):
    evidence.audit = packed([10, 8], rows_hidden=True)
    evidence.pipeline = SimpleNamespace(maker="m", expected=SimpleNamespace(capacity=10))
    summary = summarize(evidence)["packing"]
    assert [summary[name] for name in ("rows", "utilization", "occupancy", "padding")] == [
        None,
        None,
        None,
        2,
    ]


def test_offenders_of_the_window_and_the_rows(evidence):
    assert offenders(evidence) == {
        "dataset::rows": {"count": 1, "ids": ["d.jsonl:5"], "reasons": {"broken_json": 1}},
        "window::max_overflow_ratio": {"count": 1, "ids": ["d"], "reasons": {"prompt_does_not_fit": 1}},
        "window::max_truncated_ratio": {"count": 1, "ids": ["c"], "reasons": {}},
        "window::min_kept_supervision_ratio": {"count": 2, "ids": ["c", "d"], "reasons": {}},
    }


def test_offenders_are_bounded_and_counted(evidence):
    witnesses = [SimpleNamespace(id=str(number)) for number in range(MOST_IDS + 5)]
    evidence.measured.findings.counts = {"supervision::present": 12_345}
    evidence.measured.findings.witnesses = {"supervision::present": witnesses}
    entry = offenders(evidence)["supervision::present"]
    assert (entry["count"], len(entry["ids"])) == (12_345, 10_000)


def test_what_two_workers_saw():
    one = {"ledger": None, "offenders": {"a": 1}, "provenance": {"dataset": {"rows": 1}, "packing": None}}
    other = {"ledger": {"rows": 2}, "offenders": {"b": 2}, "provenance": {"dataset": None, "packing": "ffd"}}
    assert merge(one, other) == {
        "ledger": {"rows": 2},
        "offenders": {"a": 1, "b": 2},
        "provenance": {"dataset": {"rows": 1}, "packing": "ffd"},
    }


def stage(name, window, **metrics):
    return SimpleNamespace(name=name, target_context_len=window, metrics=metrics)


def test_the_stages_of_a_curriculum(evidence):
    first = stage("base", None, long_context_score=0.4, short_context_score=1, loss_finite=True)
    evidence.stages = [first, stage("8k", 8192, long_context_score=0.5, short_context_score=0.9)]
    assert summarize(evidence)["curriculum"]["stages"][0] == {
        "name": "base",
        "target_context_len": None,
        "long_context_score": 0.4,
        "short_context_score": 1.0,
    }


@pytest.mark.parametrize("score", [None, True, "0.5", float("nan")])
def test_a_score_that_is_no_number_leaves_the_picture_out(evidence, score):
    evidence.stages = [stage("base", 8, long_context_score=0.4, short_context_score=score)]
    assert summarize(evidence)["curriculum"] is None


def test_the_length_curve_of_a_gpu_record(evidence):
    steps, peak = SimpleNamespace(median_seconds=0.02), SimpleNamespace(allocated_bytes=1_500_000_000)
    point = SimpleNamespace(length=128, steps=steps, peak=peak)
    evidence.gpu_record = SimpleNamespace(measurements=(point,))
    assert summarize(evidence)["gpu"] == {"lengths": [128], "step_ms": [20.0], "peak_memory_gb": [1.5]}


def test_a_plan_has_no_length_curve(evidence):
    evidence.gpu_record = SimpleNamespace(measurements=())
    assert summarize(evidence)["gpu"] is None
