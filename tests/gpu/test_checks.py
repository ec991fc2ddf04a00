"""The items that section gpu becomes, and the verdict that each of them takes from the record."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_longctx.checks.gpu import checks, measured
from pytest_longctx.gpu import check_names
from pytest_longctx.verdict import Verdict

MECHANISM = ["length_curve", "finite", "memory_trend", "packing_boundaries", "same_supervision"]


def test_without_the_section_there_is_nothing_to_check():
    assert checks(SimpleNamespace(gpu=None)) == []


def test_one_check_for_the_mechanism_each_and_one_for_each_limit(terms):
    section = terms(limits={"max_peak_memory_gb": 1.0, "min_packing_speedup": 1.5})
    made = checks(SimpleNamespace(gpu=section))
    assert [check.name for check in made] == check_names(section)
    assert {check.section for check in made} == {"gpu"}
    assert {check.needs for check in made} == {"gpu_record"}
    assert [check.name for check in made if check.least] == ["min_packing_speedup"]
    keys = {check.name: check.key for check in made}
    assert keys == {
        **dict.fromkeys(MECHANISM, ("gpu",)),
        "max_peak_memory_gb": ("gpu", "limits", "max_peak_memory_gb"),
        "min_packing_speedup": ("gpu", "limits", "min_packing_speedup"),
    }


@pytest.fixture
def verdict_of(monkeypatch):
    """A function: the verdict of a check of a run in some mode, where a GPU is required or not."""
    monkeypatch.setattr("pytest_longctx.gpu.lines", lambda record: ["one line", "another"])
    found = {
        name: Verdict("passed", f"{name} is fine")
        for name in ("finite", "length_curve", "max_peak_memory_gb")
    }

    def verdict_of(name, *, mode="cpu", required=()):
        record = SimpleNamespace(checks=found, mode=mode)
        return measured(
            name, SimpleNamespace(gpu_record=record, settings=SimpleNamespace(required={*required}))
        )

    return verdict_of


def test_the_curve_is_shown_with_one_check_alone(verdict_of):
    assert verdict_of("length_curve").context == ("one line", "another")
    assert verdict_of("finite").context == ()
    assert verdict_of("max_peak_memory_gb").context == ()


def test_a_run_elsewhere_fails_where_a_gpu_is_required(verdict_of):
    assert verdict_of("finite").outcome == "passed"
    assert verdict_of("finite", required=["flash_attention_2"]).outcome == "passed"
    assert verdict_of("finite", required=["gpu"], mode="real").outcome == "passed"
    refused = verdict_of("finite", required=["gpu"])
    assert refused.outcome == "failed"
    assert "required, and this is a cpu run" in refused.headline
