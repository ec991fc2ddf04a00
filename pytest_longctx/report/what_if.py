"""Overflow and kept supervision against window size, and the smallest window in which all limits hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.window import FIT, OVERFLOW, TRUNCATE, WindowPolicy, critical_windows, what_if

if TYPE_CHECKING:
    from pytest_longctx.contract import WindowLimits, WindowSection
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.lengths import Int64Array
    from pytest_longctx.tokens.ledger import Ledger
    from pytest_longctx.window import WindowCurve, WindowSamples

POINTS = 160
CURVES = ("overflow_ratio", "truncated_ratio", "kept_supervision_ratio")


def window_summary(evidence: Evidence) -> dict[str, Any] | None:
    """The plan in numbers, the curve over other windows, the smallest window that passes or null."""
    terms, plan, samples = evidence.contract.window, evidence.plan, evidence.columns
    if terms is None or not samples.total.size:
        return None
    policy = _policy(terms)
    passing = smallest_passing(samples, policy, terms.limits, evidence.measured.ledger)
    curve = what_if(samples, policy, _windows(samples.total, plan.window, passing))
    return {
        "window": plan.window,
        **{
            name: plan.count(code)
            for name, code in (("fit", FIT), ("truncate", TRUNCATE), ("overflow", OVERFLOW))
        },
        "kept_supervision_ratio": float(plan.kept_supervision_ratio),
        "lost_turn_ends": plan.lost_turn_ends,
        "limits": terms.limits.model_dump(exclude_none=True),
        "smallest_passing": passing,
        "curve": {
            "windows": curve.windows.tolist(),
            **{name: [round(float(value), 6) for value in getattr(curve, name)] for name in CURVES},
        },
    }


def _policy(terms: WindowSection) -> WindowPolicy:
    return WindowPolicy(terms.min_kept_supervised_tokens, terms.max_supervision_loss_ratio)


def _windows(total: Int64Array, window: int, passing: int | None) -> Int64Array:
    """Windows from half of the short samples to above the longest, evenly in the logarithm; int64[w]."""
    low = max(1, int(np.percentile(total, 5)) // 2)
    high = max(int(total.max()), window) * 5 // 4 + 1
    steps = np.rint(np.geomspace(low, high, POINTS)).astype(np.int64)
    marked = [window] if passing is None else [window, passing]
    return np.unique(np.concatenate([steps, np.asarray(marked, dtype=np.int64)]))


def smallest_passing(
    samples: WindowSamples, policy: WindowPolicy, limits: WindowLimits, ledger: Ledger
) -> int | None:
    """The smallest window in which all limits hold, or None.

    Overflow falls, and kept tokens and turns grow with the window, so their bounds are found in order. The
    truncated share may rise and fall; beyond these bounds it changes only where a sample is admitted or fits.
    """
    if not limits.model_dump(exclude_none=True):
        return None
    low = 1
    if limits.min_kept_turn_ratio is not None:
        low = _window_of_turns(critical_windows(samples, policy), ledger, limits.min_kept_turn_ratio)
    high = max(low, int(samples.total.max()))
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if _holds(samples, policy, limits, _MONOTONE, [middle])[0] else (middle + 1, high)
        )
    steps = np.concatenate([critical_windows(samples, policy), samples.total, [low]])
    candidates = np.unique(steps[steps >= low])
    holds = _holds(samples, policy, limits, (*_MONOTONE, "max_truncated_ratio"), candidates)
    return int(candidates[np.argmax(holds)]) if holds.any() else None


def _window_of_turns(critical: Int64Array, ledger: Ledger, least: float) -> int:
    """The smallest window that keeps at least this share of the turns whole; at least 1.

    A turn is kept from the window on that admits its sample and reaches its end.
    """
    kept_from = np.sort(np.maximum(np.repeat(critical, np.diff(ledger.turn_offsets)), ledger.turns[:, 1]))
    number = kept_from.size
    needed = int(np.searchsorted(np.arange(number + 1) / max(1, number), least))
    return max(1, int(kept_from[needed - 1])) if 0 < needed <= number else 1


_MONOTONE = ("max_overflow_ratio", "min_kept_supervision_ratio")


def _holds(
    samples: WindowSamples,
    policy: WindowPolicy,
    limits: WindowLimits,
    names: tuple[str, ...],
    windows: Int64Array | list[int],
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """bool[w], windows in which the named limits hold."""
    curve: WindowCurve = what_if(samples, policy, windows)
    holds = np.ones(len(windows), dtype=np.bool_)
    for name in names:
        limit, values = getattr(limits, name), getattr(curve, name.partition("_")[2])
        if limit is not None:
            holds &= values >= limit if name.startswith("min_") else values <= limit
    return holds
