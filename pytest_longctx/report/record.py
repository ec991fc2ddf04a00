"""A verdict as one plain JSON mapping."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_longctx.verdict import headroom

if TYPE_CHECKING:
    from pytest_longctx.checks import Check
    from pytest_longctx.verdict import Verdict


def to_record(check: Check, verdict: Verdict) -> dict[str, Any]:
    """What the summary and the reports need of a verdict; NaN and infinities as null."""
    return {
        "check": check.id,
        "outcome": verdict.outcome,
        "headline": verdict.headline,
        "measured": finite(verdict.measured),
        "limit": finite(verdict.limit),
        "unit": verdict.unit,
        "headroom": finite(headroom(verdict, least=check.least)),
        "least": check.least,
        "witnesses": [{name: finite(value) for name, value in row.items()} for row in verdict.witnesses],
        "more": verdict.more,
        "advice": verdict.advice,
    }


def finite(value: Any) -> Any:
    """None for a number that JSON has no word for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
