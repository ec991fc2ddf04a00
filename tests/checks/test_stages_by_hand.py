"""The gates of a stage as verdicts, on metrics written by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pytest_longctx.checks import curriculum
from pytest_longctx.curriculum import GATES, Stage
from pytest_longctx.stages import Budget
from pytest_longctx.verdict import Verdict

METRICS = {
    "long_context_score": 0.5,
    "short_context_score": 0.75,
    "supervised_tokens_per_optimizer_step": 1000,
    "failed_runs": 0,
    "peak_memory_gb": 8.0,
    "cost_per_supervised_token": 1.0,
    "loss_finite": True,
    "gradients_finite": True,
}
LIMITS = {
    "min_long_context_gain": 0.25,
    "max_short_context_regression": 0.0,
    "max_failed_runs": 0,
    "max_peak_memory_gb": 8.0,
    "max_cost_per_supervised_token": 1.0,
}


def stage(name, window=None, **metrics):
    return Stage(name, window, {**METRICS, **metrics})


def evidence(*stages, tolerance=0.0):
    section = SimpleNamespace(
        limits=SimpleNamespace(model_dump=lambda: LIMITS), token_budget_tolerance=tolerance
    )
    return SimpleNamespace(stages=stages, contract=SimpleNamespace(curriculum=section))


SOUND = (
    stage("base", 8),
    stage("second", 16, long_context_score=0.75),
    stage("third", 32, long_context_score=1.0),
)


class TestGates:
    @pytest.mark.parametrize("place", [0, 1])
    @pytest.mark.parametrize("name", GATES)
    def test_all_pass(self, name, place):
        verdict = curriculum.gate(name, place, evidence(*SOUND))
        assert verdict.outcome == "passed"
        assert verdict.headline.startswith(f"{name}: {('second', 'third')[place]} has ")
        assert verdict.context == (f"compared with {('base', 'second')[place]}",)
        assert verdict.advice == curriculum.ADVICE[name]

    def test_a_gain_that_is_too_small(self):
        verdict = curriculum.gate("insufficient_long_context_gain", 0, evidence(stage("base"), stage("next")))
        assert verdict == Verdict(
            "failed",
            "insufficient_long_context_gain: next has 0, needed ≥ 0.25",
            0.0,
            0.25,
            "number",
            ("compared with base", "decision: hold"),
            advice="hold the stage: longer rows have not paid off yet",
        )

    @pytest.mark.parametrize(
        ("name", "metrics", "told"),
        [
            (
                "token_budget_mismatch",
                {"supervised_tokens_per_optimizer_step": 1000.25},
                "1,000.2, needed = 1,000",
            ),
            ("peak_memory_budget", {"peak_memory_gb": 8.0001}, "8.0001, needed ≤ 8"),
            ("insufficient_long_context_gain", {"long_context_score": 0.749999}, "0.249999, needed ≥ 0.25"),
        ],
    )
    def test_what_just_misses_its_gate_does_not_look_as_if_it_met_it(self, name, metrics, told):
        verdict = curriculum.gate(name, 0, evidence(stage("base"), stage("next", **metrics)))
        assert verdict.outcome == "failed"
        assert verdict.headline == f"{name}: next has {told}"

    def test_a_flag_is_told_in_words(self):
        found = evidence(stage("base"), stage("16k", gradients_finite=False))
        names = ("nonfinite_gradients", "nonfinite_loss")
        told = [curriculum.gate(name, 0, found).headline for name in names]
        assert told == [
            "nonfinite_gradients: 16k has gradients that are not finite",
            "nonfinite_loss: 16k has no losses that are not finite",
        ]

    def test_the_other_failed_gates_are_named(self):
        bad = stage("next", long_context_score=1.0, failed_runs=2, loss_finite=False, peak_memory_gb=9.0)
        found = evidence(stage("base"), bad)
        verdict = curriculum.gate("nonfinite_loss", 0, found)
        assert (verdict.outcome, verdict.measured, verdict.limit) == ("failed", 0, 1)
        assert type(verdict.measured) is type(verdict.limit) is int
        assert verdict.headline == "nonfinite_loss: next has losses that are not finite"
        assert verdict.context[1] == "decision: hold; also failed: failed_runs, peak_memory_budget"
        verdict = curriculum.gate("cost_budget", 0, found)
        assert verdict.outcome == "passed"
        assert verdict.context[1].endswith("also failed: nonfinite_loss, failed_runs, peak_memory_budget")

    def test_a_stage_that_is_not_held_by_this_gate(self):
        found = evidence(stage("base"), stage("next", long_context_score=1.0, failed_runs=2))
        verdict = curriculum.gate("cost_budget", 0, found)
        assert verdict.context == ("compared with base", "decision: hold; also failed: failed_runs")
        verdict = curriculum.gate("failed_runs", 0, found)
        assert verdict.context == ("compared with base", "decision: hold")

    def test_an_equal_budget_has_no_limit_to_come_near_to(self):
        other = stage("next", supervised_tokens_per_optimizer_step=2000)
        verdict = curriculum.gate("token_budget_mismatch", 0, evidence(stage("base"), other))
        assert (verdict.outcome, verdict.measured, verdict.limit) == ("failed", 2000, None)
        assert verdict.headline == "token_budget_mismatch: next has 2,000, needed = 1,000"


class TestOrder:
    def test_windows_grow(self):
        verdict = curriculum.order(1, evidence(*SOUND))
        assert (verdict.outcome, verdict.measured, verdict.limit) == ("passed", 32, 16)
        assert verdict.context == ("compared with second",)
        verdict = curriculum.order(0, evidence(stage("base", 16), stage("next", 16)))
        assert (verdict.outcome, verdict.headline) == ("failed", "stage_order: next has 16, needed > 16")
        assert curriculum.order(0, evidence(stage("base"), stage("next", 16))).outcome == "passed"

    @pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
    def test_each_stage_is_compared_with_the_one_before_it(self, place):
        stages = [stage(f"s{number}", 2**number) for number in range(6)]
        verdict = curriculum.order(place, evidence(*stages))
        assert (verdict.measured, verdict.limit) == (2 ** (place + 1), 2**place)
        assert verdict.context == (f"compared with s{place}",)


class TestBudget:
    def test_without_a_section_the_claim_is_exact(self, monkeypatch):
        monkeypatch.setattr(curriculum, "measured_budget", lambda evidence, place: Budget(1001, ""))
        found = SimpleNamespace(stages=SOUND, contract=SimpleNamespace(curriculum=None))
        assert curriculum.token_budget(0, found).outcome == "failed"
        monkeypatch.setattr(curriculum, "measured_budget", lambda evidence, place: Budget(1000, ""))
        assert curriculum.token_budget(0, found).outcome == "passed"

    @pytest.mark.parametrize(
        ("measured", "tolerance", "outcome", "off"),
        [
            (1000, 0.0, "passed", 0.0),
            (1100, 0.1, "passed", 0.1),
            (900, 0.1, "passed", 0.1),
            (1050, 0.1, "passed", 0.05),
            (1101, 0.1, "failed", 0.101),
            (899, 0.1, "failed", 0.101),
        ],
    )
    def test_what_the_metrics_claim(self, monkeypatch, measured, tolerance, outcome, off):
        asked = []
        monkeypatch.setattr(
            curriculum,
            "measured_budget",
            lambda evidence, place: asked.append(place) or Budget(measured, "in 2 rows"),
        )
        verdict = curriculum.token_budget(1, evidence(*SOUND, tolerance=tolerance))
        assert asked == [1]
        assert (verdict.outcome, verdict.limit, verdict.unit) == (outcome, tolerance, "ratio")
        assert verdict.measured == pytest.approx(off)
        assert verdict.headline == (
            f"measured_token_budget: third has {measured:,} a step, the metrics claim 1,000"
        )
        assert verdict.context[0].startswith(f"measured {measured:,}.0 supervised tokens a step, off by ")
        assert verdict.context[1:] == ("in 2 rows",)


class TestMix:
    @staticmethod
    def mixed(monkeypatch, before, after):
        shares = {8: before, 16: after}
        monkeypatch.setattr(
            curriculum, "length_mix", lambda evidence, window: shares[window] and {"long": shares[window]}
        )
        return curriculum.mix(0, evidence(*SOUND))

    @pytest.mark.parametrize(
        ("before", "after", "outcome"), [(0.2, 0.2, "passed"), (0.2, 0.3, "passed"), (0.2, 0.1, "failed")]
    )
    def test_long_samples_do_not_get_fewer(self, monkeypatch, before, after, outcome):
        verdict = self.mixed(monkeypatch, before, after)
        assert (verdict.outcome, verdict.measured, verdict.limit) == (outcome, after, before)
        assert verdict.headline == f"length_mix: long share {after:.0%} after {before:.0%}".replace("%", " %")
        assert verdict.context == (
            f"base: long {100 * before:g} %",
            f"second: long {100 * after:g} %",
        )

    def test_nothing_to_compare_with(self, monkeypatch):
        verdict = self.mixed(monkeypatch, None, 0.2)
        assert verdict == Verdict("passed", "length_mix: base has no admitted sample to compare with")
        monkeypatch.setattr(curriculum, "length_mix", lambda evidence, window: window and {"long": 0.2})
        verdict = curriculum.mix(0, evidence(stage("base"), stage("next", 16)))
        assert verdict == Verdict("passed", "length_mix: base has no window to compare with")

    @pytest.mark.parametrize("before", [None, 0.2])
    def test_a_stage_that_admits_no_sample(self, monkeypatch, before):
        assert self.mixed(monkeypatch, before, None) == Verdict(
            "failed",
            "length_mix: no sample is admitted at 16, needed at least one",
            advice="enlarge the stage's window: every sample overflows it",
        )

    @pytest.mark.parametrize(("window", "outcome"), [(64, "failed"), (149, "failed"), (150, "passed")])
    def test_the_shortest_of_two_rows_has_150_tokens(self, judge, tmp_path, window, outcome):
        (tmp_path / "m.json").write_text(json.dumps(METRICS))
        run = {"target_context_len": 32, "metrics": "m.json"}
        stage = {**run, "name": "next", "target_context_len": window}
        section = {"baseline": run, "stages": [stage], "limits": LIMITS}
        lengths = {"short_threshold": 10, "long_threshold": 20}
        found = judge([(100, 50), (300, 20)], lengths=lengths, curriculum=section)
        assert found["length_mix"].outcome == outcome


class TestChecks:
    @staticmethod
    def names(monkeypatch, *, packing=None, lengths=None, batches=(True, True)):
        monkeypatch.setattr(curriculum, "batch_of", lambda section, place: batches[place])
        section = SimpleNamespace(stages=[SimpleNamespace(name="a"), SimpleNamespace(name="b")])
        found = curriculum.checks(SimpleNamespace(curriculum=section, packing=packing, lengths=lengths))
        return found, [(check.name, check.part) for check in found if check.name not in GATES]

    def test_gates_of_every_stage(self, monkeypatch):
        found, others = self.names(monkeypatch)
        assert [check.name for check in found] == [*GATES, "stage_order"] * 2
        assert others == [("stage_order", "a"), ("stage_order", "b")]
        assert [check.key for check in found][::9] == [
            ("curriculum", "stages", 0, "name"),
            ("curriculum", "stages", 1, "name"),
        ]
        assert {check.needs for check in found} == {"stages"}
        assert [check.name for check in found[:9] if check.least] == [
            "insufficient_long_context_gain",
            "nonfinite_loss",
            "nonfinite_gradients",
            "stage_order",
        ]

    def test_what_needs_other_sections(self, monkeypatch):
        found, others = self.names(monkeypatch, packing=1, lengths=1, batches=(False, True))
        assert others == [
            ("stage_order", "a"),
            ("length_mix", "a"),
            ("stage_order", "b"),
            ("measured_token_budget", "b"),
            ("length_mix", "b"),
        ]
        assert [check.needs for check in found if check.name == "length_mix"] == ["columns"] * 2
        assert curriculum.checks(SimpleNamespace(curriculum=None)) == []
