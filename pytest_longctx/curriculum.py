"""The length curriculum: a stage is entered only if every gate between it and the stage before it holds."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import LongctxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GATES = (
    "token_budget_mismatch",
    "insufficient_long_context_gain",
    "short_context_regression",
    "nonfinite_loss",
    "nonfinite_gradients",
    "failed_runs",
    "peak_memory_budget",
    "cost_budget",
)
BUDGET = "supervised_tokens_per_optimizer_step"
# What a stage took. Memory and cost of 0 are those that nobody measured.
AMOUNTS = ("failed_runs", "peak_memory_gb", "cost_per_supervised_token")
SCORES = ("long_context_score", "short_context_score")
BASELINE_METRICS = (*SCORES, BUDGET)
CANDIDATE_METRICS = (*BASELINE_METRICS, *AMOUNTS)
FLAGS = ("loss_finite", "gradients_finite")
LIMITS = (
    "min_long_context_gain",
    "max_short_context_regression",
    "max_failed_runs",
    "max_peak_memory_gb",
    "max_cost_per_supervised_token",
)

# A difference of two scores that is exactly at its limit in decimal may miss it by rounding: 0.7 - 0.6 is
# less than 0.1. Scores lie between 0 and 100, so their rounding error stays well below this.
TOLERANCE = 1e-12


class MetricsError(LongctxError, ValueError):
    """Metrics or limits of a curriculum stage are missing, no numbers, or below what they can be."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition for entering a stage. `relation` says how `measured` must stand to `limit`."""

    name: str
    passed: bool
    measured: bool | int | float
    relation: str  # one of = ≥ ≤ > is
    limit: bool | int | float | None  # None: nothing to compare with


@dataclass(frozen=True, slots=True)
class StageResult:
    """The gates of one stage, all eight in the order of `GATES`."""

    gates: tuple[Gate, ...]

    @property
    def failed_gates(self) -> list[str]:
        """Names of the gates that failed."""
        return [gate.name for gate in self.gates if not gate.passed]

    @property
    def decision(self) -> str:
        """`advance` if no gate failed, else `hold`: there is no weighing of one gate against another."""
        return "hold" if self.failed_gates else "advance"


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the curriculum. The window is None where it is not known (the baseline's may be)."""

    name: str
    target_context_len: int | None
    metrics: Mapping[str, Any]


def is_number(value: Any) -> bool:
    """Whether a value is an integer or a float; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether a value is a number that is neither NaN nor infinite, nor an integer beyond every float."""
    return is_number(value) and abs(value) <= sys.float_info.max


def told(value: Any) -> str:
    """A value as messages show it: on one line, and cut where it is long."""
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return "an integer beyond every float"
    return f"{value!r:.80}"


def numbers(values: Mapping[str, Any], keys: Sequence[str], where: str) -> dict[str, int | float]:
    """Return `keys` of `values`, all finite numbers that their metrics can be.

    Raises:
        MetricsError: it names every key that is not.
    """
    faults = [fault for key in keys if (fault := _fault(key, values))]
    if faults:
        raise MetricsError(f"{where}: {'; '.join(faults)}")
    return {key: values[key] for key in keys}


def _fault(key: str, values: Mapping[str, Any]) -> str | None:
    if key not in values:
        return f"{key} is missing"
    value = values[key]
    if not is_number(value):
        expected = "a number"
    elif not is_finite(value):
        expected = "a finite number"
    elif key == BUDGET and value <= 0:
        expected = "more than 0"
    elif key in AMOUNTS and value < 0:
        expected = "0 or more"
    else:
        return None
    return f"{key} is {told(value)}, expected {expected}"


def evaluate_stage(
    baseline: Mapping[str, Any],
    candidate: Mapping[str, Any],
    limits: Mapping[str, Any],
    names: tuple[str, str] = ("baseline", "candidate"),
) -> StageResult:
    """Compare the metrics of a stage with those of the stage before it.

    Keys: `BASELINE_METRICS`, `CANDIDATE_METRICS` with `FLAGS`, `LIMITS`. A flag passes only as the value
    True. Raises MetricsError, a ValueError, for missing keys, for values that are no finite numbers, for a
    token budget that is not above 0, and for failed runs, memory and cost below 0.
    """
    before = numbers(baseline, BASELINE_METRICS, names[0])
    after = numbers(candidate, CANDIDATE_METRICS, names[1])
    bound = numbers(limits, LIMITS, "limits")
    missing = [f"{flag} is missing" for flag in FLAGS if flag not in candidate]
    if missing:
        raise MetricsError(f"{names[1]}: {'; '.join(missing)}")
    gain = after["long_context_score"] - before["long_context_score"]
    regression = before["short_context_score"] - after["short_context_score"]
    least_gain, most_regression = bound["min_long_context_gain"], bound["max_short_context_regression"]
    conditions: list[tuple[bool, Any, str, Any]] = [
        (after[BUDGET] == before[BUDGET], after[BUDGET], "=", before[BUDGET]),
        (gain >= least_gain - TOLERANCE, gain, "≥", least_gain),
        (regression <= most_regression + TOLERANCE, regression, "≤", most_regression),
        *((candidate[flag] is True, candidate[flag] is True, "is", True) for flag in FLAGS),
        *((after[key] <= bound[f"max_{key}"], after[key], "≤", bound[f"max_{key}"]) for key in AMOUNTS),
    ]
    return StageResult(tuple(Gate(name, *parts) for name, parts in zip(GATES, conditions, strict=True)))


def evaluate_curriculum(
    baseline: Stage, stages: Sequence[Stage], limits: Mapping[str, Any]
) -> tuple[StageResult, ...]:
    """Compare each stage with the one before it, the first with `baseline`."""
    return tuple(
        evaluate_stage(before.metrics, after.metrics, limits, (before.name, after.name))
        for before, after in pairwise([baseline, *stages])
    )


def stage_order(baseline: Stage, stages: Sequence[Stage]) -> tuple[Gate, ...]:
    """Return for each stage the gate that its window is larger than the last known one before it."""
    gates = []
    previous = baseline.target_context_len
    for stage in stages:
        window = stage.target_context_len
        if window is None:
            raise MetricsError(f"{stage.name}: target_context_len is missing")
        gates.append(Gate("stage_order", previous is None or window > previous, window, ">", previous))
        previous = window
    return tuple(gates)


def check_scale(stages: Sequence[Stage]) -> None:
    """Raise MetricsError where the scores of one run are shares of 1 and those of another are in percent.

    Scores of 0 are the same on both scales, and those of a reward may grow beyond 1.
    """
    runs = [(stage.name, [stage.metrics[key] for key in SCORES]) for stage in stages]
    shares = [run for run in runs if min(run[1]) >= 0 and 0 < max(run[1]) <= 1]
    percents = [run for run in runs if min(run[1]) > 1 and max(run[1]) > 10]
    if shares and percents:
        found = " and ".join(f"{told(scores)} in {name}" for name, scores in (shares[0], percents[0]))
        raise MetricsError(
            f"{' and '.join(SCORES)}: found {found}, expected one scale in all files; "
            "write all scores as shares of 1, or all in percent"
        )
