from __future__ import annotations

import math
import sys

import pytest

from pytest_longctx.curriculum import (
    GATES,
    TOLERANCE,
    MetricsError,
    Stage,
    evaluate_curriculum,
    evaluate_stage,
    stage_order,
)
from pytest_longctx.errors import LongctxError

BASELINE = {
    "long_context_score": 0.56,
    "short_context_score": 0.82,
    "supervised_tokens_per_optimizer_step": 8192,
}
CANDIDATE = {
    "long_context_score": 0.63,
    "short_context_score": 0.81,
    "supervised_tokens_per_optimizer_step": 8192,
    "loss_finite": True,
    "gradients_finite": True,
    "failed_runs": 0,
    "peak_memory_gb": 9.8,
    "cost_per_supervised_token": 1.25,
}
LIMITS = {
    "min_long_context_gain": 0.04,
    "max_short_context_regression": 0.02,
    "max_failed_runs": 0,
    "max_peak_memory_gb": 10.5,
    "max_cost_per_supervised_token": 1.4,
}


def failed(**changes):
    return evaluate_stage(BASELINE, CANDIDATE | changes, LIMITS).failed_gates


def test_a_stage_advances_with_no_failed_gate():
    result = evaluate_stage(BASELINE, CANDIDATE, LIMITS)
    assert result.decision == "advance"
    assert result.failed_gates == []
    assert [gate.name for gate in result.gates] == list(GATES)


@pytest.mark.parametrize(
    ("changes", "gate"),
    [
        ({"supervised_tokens_per_optimizer_step": 8191}, "token_budget_mismatch"),
        ({"long_context_score": 0.599}, "insufficient_long_context_gain"),
        ({"short_context_score": 0.799}, "short_context_regression"),
        ({"loss_finite": False}, "nonfinite_loss"),
        ({"gradients_finite": False}, "nonfinite_gradients"),
        ({"failed_runs": 1}, "failed_runs"),
        ({"peak_memory_gb": 10.51}, "peak_memory_budget"),
        ({"cost_per_supervised_token": 1.41}, "cost_budget"),
    ],
)
def test_each_gate_holds_the_stage_alone(changes, gate):
    assert failed(**changes) == [gate]
    assert evaluate_stage(BASELINE, CANDIDATE | changes, LIMITS).decision == "hold"


def test_failed_gates_keep_their_order():
    everything = {
        "cost_per_supervised_token": 9,
        "peak_memory_gb": 99,
        "failed_runs": 3,
        "gradients_finite": None,
        "loss_finite": None,
        "short_context_score": 0,
        "long_context_score": 0,
        "supervised_tokens_per_optimizer_step": 1,
    }
    assert failed(**everything) == list(GATES)


@pytest.mark.parametrize("value", [1, "true", "True", [True], 1.0, None])
@pytest.mark.parametrize(
    ("flag", "gate"), [("loss_finite", "nonfinite_loss"), ("gradients_finite", "nonfinite_gradients")]
)
def test_a_flag_passes_only_as_true(flag, gate, value):
    assert failed(**{flag: value}) == [gate]


def test_values_at_their_limits_pass():
    at_limits = {
        "long_context_score": 0.60,
        "short_context_score": 0.80,
        "peak_memory_gb": 10.5,
        "cost_per_supervised_token": 1.4,
    }
    assert failed(**at_limits) == []


def test_a_difference_that_misses_its_limit_by_rounding_passes():
    assert 0.7 - 0.6 < 0.1 < 1.0 - 0.9 + 1e-15
    limits = LIMITS | {"min_long_context_gain": 0.1, "max_short_context_regression": 0.1}
    baseline = BASELINE | {"long_context_score": 0.6, "short_context_score": 0.4}
    candidate = CANDIDATE | {"long_context_score": 0.7, "short_context_score": 0.3}
    assert evaluate_stage(baseline, candidate, limits).failed_gates == []
    candidate["long_context_score"] = 0.7 - 1e-9
    assert evaluate_stage(baseline, candidate, limits).failed_gates == ["insufficient_long_context_gain"]


def test_gates_carry_what_was_measured():
    gates = {gate.name: gate for gate in evaluate_stage(BASELINE, CANDIDATE, LIMITS).gates}
    measured = {name: (gate.measured, gate.relation, gate.limit) for name, gate in gates.items()}
    assert measured["token_budget_mismatch"] == (8192, "=", 8192)
    assert measured["insufficient_long_context_gain"] == (pytest.approx(0.07), "≥", 0.04)
    assert measured["short_context_regression"] == (pytest.approx(0.01), "≤", 0.02)
    assert measured["nonfinite_loss"] == (True, "is", True)
    assert measured["failed_runs"] == (0, "≤", 0)
    assert measured["peak_memory_budget"] == (9.8, "≤", 10.5)
    assert measured["cost_budget"] == (1.25, "≤", 1.4)


@pytest.mark.parametrize("key", [*CANDIDATE])
def test_a_missing_key_of_the_candidate_is_named(key):
    candidate = {name: value for name, value in CANDIDATE.items() if name != key}
    with pytest.raises(ValueError, match=f"^candidate: {key} is missing$"):
        evaluate_stage(BASELINE, candidate, LIMITS)


@pytest.mark.parametrize("key", [*BASELINE])
def test_a_missing_key_of_the_baseline_is_named(key):
    baseline = {name: value for name, value in BASELINE.items() if name != key}
    with pytest.raises(LongctxError, match=f"^baseline: {key} is missing$"):
        evaluate_stage(baseline, CANDIDATE, LIMITS)


@pytest.mark.parametrize("key", [*LIMITS])
def test_a_missing_limit_is_named(key):
    limits = {name: value for name, value in LIMITS.items() if name != key}
    with pytest.raises(MetricsError, match=f"^limits: {key} is missing$"):
        evaluate_stage(BASELINE, CANDIDATE, limits)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0.5", "is '0.5', expected a number"),
        (True, "is True, expected a number"),
        (None, "is None, expected a number"),
        (math.nan, "is nan, expected a finite number"),
        (math.inf, "is inf, expected a finite number"),
        pytest.param(10**400, "is an integer beyond every float, expected a finite number", id="huge"),
        pytest.param(
            -(10**5000), "is an integer beyond every float, expected a finite number", id="unprintable"
        ),
        ("x" * 100, f"is '{'x' * 79}, expected a number"),
    ],
)
def test_a_value_that_is_no_number_is_named(value, message):
    with pytest.raises(ValueError, match=f"^candidate: long_context_score {message}$"):
        evaluate_stage(BASELINE, CANDIDATE | {"long_context_score": value}, LIMITS)


@pytest.mark.parametrize(
    ("key", "values", "expected"),
    [
        ("supervised_tokens_per_optimizer_step", (0, -1, -67000, -0.5), "more than 0"),
        ("failed_runs", (-1, -0.5), "0 or more"),
        ("peak_memory_gb", (-3, -1e-9), "0 or more"),
        ("cost_per_supervised_token", (-1, -1e-9), "0 or more"),
    ],
)
def test_a_value_that_no_run_has_is_named(key, values, expected):
    for value in values:
        with pytest.raises(MetricsError, match=f"^candidate: {key} is {value}, expected {expected}$"):
            evaluate_stage(BASELINE, CANDIDATE | {key: value}, LIMITS)
        if key in BASELINE:
            with pytest.raises(MetricsError, match=f"^baseline: {key} is {value}, expected {expected}$"):
                evaluate_stage(BASELINE | {key: value}, CANDIDATE, LIMITS)


def test_the_least_and_the_largest_values():
    least = {"failed_runs": 0, "peak_memory_gb": 0, "cost_per_supervised_token": 0}
    budget = {"supervised_tokens_per_optimizer_step": 0.5}
    assert evaluate_stage(BASELINE | budget, CANDIDATE | budget | least, LIMITS).failed_gates == []
    scores = {"long_context_score": -0.5, "short_context_score": -0.25}
    better = {"long_context_score": 0.5, "short_context_score": -0.25}
    assert evaluate_stage(BASELINE | scores, CANDIDATE | better, LIMITS).failed_gates == []
    assert failed(long_context_score=sys.float_info.max) == []
    assert failed(short_context_score=-sys.float_info.max) == ["short_context_regression"]


def test_the_largest_integer_that_is_shown():
    with pytest.raises(
        MetricsError, match=r"^candidate: failed_runs is -17976931348623157\d{62}, expected 0 or"
    ):
        failed(failed_runs=-int(sys.float_info.max))


def test_all_faults_at_once():
    with pytest.raises(MetricsError, match=r"short_context_score is missing; .*_step is missing$"):
        evaluate_stage({"long_context_score": 1}, CANDIDATE, LIMITS)


def test_each_stage_is_compared_with_the_one_before():
    base = Stage("4k", 4096, BASELINE)
    first = Stage("8k", 8192, CANDIDATE)
    # 0.65 is 0.09 over the baseline but 0.02 over the stage before.
    second = Stage("16k", 16384, CANDIDATE | {"long_context_score": 0.65})
    results = evaluate_curriculum(base, [first, second], LIMITS)
    assert [result.decision for result in results] == ["advance", "hold"]
    assert results[1].failed_gates == ["insufficient_long_context_gain"]


def test_messages_name_the_stage():
    with pytest.raises(MetricsError, match=r"^8k: loss_finite is missing; gradients_finite is missing$"):
        evaluate_curriculum(
            Stage("4k", None, BASELINE),
            [Stage("8k", 8192, {key: CANDIDATE[key] for key in CANDIDATE if not key.endswith("finite")})],
            LIMITS,
        )


def test_windows_grow():
    stages = [Stage("8k", 8192, {}), Stage("again", 8192, {}), Stage("16k", 16384, {})]
    order = stage_order(Stage("4k", 4096, {}), stages)
    assert [(gate.passed, gate.measured, gate.limit) for gate in order] == [
        (True, 8192, 4096),
        (False, 8192, 8192),
        (True, 16384, 8192),
    ]
    assert {(gate.name, gate.relation) for gate in order} == {("stage_order", ">")}


def test_a_baseline_of_unknown_window_is_not_compared():
    (gate,) = stage_order(Stage("base", None, {}), [Stage("8k", 8192, {})])
    assert (gate.passed, gate.limit) == (True, None)


def test_a_stage_has_a_window():
    with pytest.raises(MetricsError, match=r"^8k: target_context_len is missing$"):
        stage_order(Stage("base", None, {}), [Stage("8k", None, {})])


def test_a_larger_budget_is_another_budget_as_well():
    key = "supervised_tokens_per_optimizer_step"
    assert failed(**{key: 8193}) == ["token_budget_mismatch"]
    assert failed(**{key: 8192.0}) == [], "equal numbers of two types are equal"


def test_a_score_that_more_than_doubles_is_a_gain():
    result = evaluate_stage(BASELINE | {"long_context_score": 0.3}, CANDIDATE, LIMITS)
    assert result.gates[1].measured == pytest.approx(0.33)


def test_a_difference_beyond_rounding_fails():
    """The tolerance is for the last bits of a difference, and belongs to the limit itself."""
    at = BASELINE | {"long_context_score": 0.0, "short_context_score": 0.0}
    limits = LIMITS | {"min_long_context_gain": TOLERANCE, "max_short_context_regression": -TOLERANCE}
    exact = CANDIDATE | {"long_context_score": 0.0, "short_context_score": 0.0}
    assert evaluate_stage(at, exact, limits).failed_gates == []
    worse = CANDIDATE | {"long_context_score": -1e-11, "short_context_score": -1e-11}
    found = evaluate_stage(
        at, worse, LIMITS | {"min_long_context_gain": 0, "max_short_context_regression": 0}
    )
    assert found.failed_gates == ["insufficient_long_context_gain", "short_context_regression"]


def test_a_window_that_shrinks():
    (gate,) = stage_order(Stage("16k", 16384, {}), [Stage("8k", 8192, {})])
    assert not gate.passed


@pytest.mark.parametrize("value", [1, 1.0])
def test_a_flag_is_measured_as_false_where_it_is_not_true(value):
    gates = {
        gate.name: gate for gate in evaluate_stage(BASELINE, CANDIDATE | {"loss_finite": value}, LIMITS).gates
    }
    assert gates["nonfinite_loss"].measured is False
