"""The window and the limits that are proposed: always with room over what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_longctx.verdict import shown

if TYPE_CHECKING:
    from pytest_longctx.verdict import Number, Unit, Verdict

ROOM = (
    "tokens a quarter; shares of what is lost, cut or wasted half as much again, at least half a point;",
    "the share of long samples may fall by half; offending rows a tenth, at least one",
)
# Nothing fails these: checks with such limits only tell what they measure.
LOOSEST: dict[str, dict[str, Number]] = {
    "lengths": {"max_tokens": 2**31 - 1, "max_p95_tokens": 2**31 - 1, "min_long_share": 0.0},
    "window": {"max_overflow_ratio": 1.0, "max_truncated_ratio": 1.0, "min_kept_supervision_ratio": 0.0},
    "packing": {"min_utilization": 0.0, "max_rows_over_bound": 1e9},
}
_MOST_ALLOWED = 0.01
_FEWEST_LONG = 10  # long samples, and packed rows, below which a share of them says nothing


@dataclass(frozen=True)
class Proposed:
    """A limit, and what it was made from."""

    value: Number
    measured: Number
    unit: Unit

    @property
    def note(self) -> str:
        """The measured value for a comment."""
        return f"measured {shown(self.measured, self.unit)}"


def round_window(tokens: int) -> int:
    """The next power of two, or one and a half of it; at least 64."""
    power = 1 << max(6, (max(1, tokens) - 1).bit_length())
    return power * 3 // 4 if tokens <= power * 3 // 4 and power > 64 else power


def allowed(verdict: Verdict, samples: int) -> Proposed | None:
    """The limit for offending rows; None where they are too many to be let be."""
    count = int(verdict.measured or 0)
    if count > _MOST_ALLOWED * samples:
        return None
    return Proposed(max(count + 1, math.ceil(count * 1.1)), count, verdict.unit)


def proposed(name: str, verdict: Verdict, samples: int) -> Proposed | None:
    """The limit for what a check measured; None where so few samples say nothing."""
    measured = verdict.measured
    if measured is None or (name == "min_long_share" and measured * samples < _FEWEST_LONG):
        return None
    return Proposed(_with_room(name, measured, verdict.unit), measured, verdict.unit)


def _with_room(name: str, measured: Number, unit: Unit) -> Number:
    if unit == "tokens":
        return _up_to_two_digits(measured * 1.25)
    if unit == "factor":
        return _up(1 + max(1.5 * (measured - 1), 0.02), 2)
    if name == "min_long_share":
        return math.floor(measured / 2 * 1000) / 1000
    if name.startswith("min_"):
        return round(1 - _more(1 - measured), 3)
    return _more(measured)


def _more(share: float) -> float:
    """A share of something unwanted, with room."""
    return min(1.0, _up(max(1.5 * share, share + 0.005), 3))


def _up(value: float, digits: int) -> float:
    """Rounded up; what is off by less than a float can tell is not."""
    scale = 10.0**digits
    return math.ceil(round(value * scale, 6)) / scale


def _up_to_two_digits(value: float) -> int:
    step: int = 10 ** max(0, len(str(math.ceil(value))) - 2)
    return math.ceil(value / step) * step
