"""The result of a check, as plain values; only reporters print."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

Outcome = Literal["passed", "warned", "failed", "skipped"]
Unit = Literal["ratio", "tokens", "rows", "samples", "factor", "offences", "number", "turns"]
Number = int | float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check measured, against which limit, and what shows it.

    headline: the first line, complete in 80 columns. context: further lines. witnesses: plain JSON mappings
    of one shape, the worst first; more: how many further ones there are. advice: what to do.
    """

    outcome: Outcome
    headline: str
    measured: Number | None = None
    limit: Number | None = None
    unit: Unit = "number"
    context: tuple[str, ...] = ()
    witnesses: tuple[dict[str, Any], ...] = ()
    more: int = 0
    advice: str = ""


def shown(value: Number | None, unit: Unit, more: int = 0) -> str:
    """A value as people read it: `3.4 %`, `9,120`, `1.03 ×`; with so many digits more than these have."""
    if value is None:
        return "–"
    if unit == "ratio":
        return f"{_written_out(round(100 * value, 2 + more), 6 + more)} %"
    if unit == "factor":
        return f"{_written_out(value, 3 + more)} ×"
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.{4 + more}g}"
    return f"{value:,.0f}" if "e+" in text else text


def _written_out(value: Number, digits: int) -> str:
    """With so many digits, or all of those before the point; never with an exponent."""
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+" in text else f"{Decimal(text):,f}"


def told_apart(measured: Number | None, limit: Number | None, unit: Unit) -> tuple[str, str]:
    """Both values with as few digits as tell them apart, at most 12: rounding errors are no difference."""
    texts = [(shown(measured, unit, more), shown(limit, unit, more)) for more in range(9)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[0])


def headroom(verdict: Verdict, *, least: bool) -> float | None:
    """How far the measured value is from its limit, as a share of the limit; negative beyond it."""
    if verdict.measured is None or verdict.limit is None:
        return None
    distance = verdict.measured - verdict.limit if least else verdict.limit - verdict.measured
    return distance / abs(verdict.limit) if verdict.limit else (0.0 if distance == 0 else None)


def shown_headroom(share: float | None) -> str:
    """Headroom in percent, of three digits at most: its column is narrow. A dash where there is none."""
    if share is None:
        return "–"
    if abs(share) > 9.99:
        return "< -999 %" if share < 0 else "> 999 %"
    return f"{100 * share:.0f} %"
