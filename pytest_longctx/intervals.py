"""What a sample of the rows can decide: intervals of ratios, and the sample size that would decide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The normal quantile of a two-sided 95 % interval.
QUANTILE = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio of a sample with its 95 % interval.

    spread: standard deviation of one row's part in it. population: how many rows there are to draw from, None
    where that is not known.
    """

    value: float
    low: float
    high: float
    rows: int
    spread: float
    population: int | None = None

    def decides(self, limit: float, *, least: bool) -> bool | None:
        """Whether the limit is met, None where the interval lies on both sides of it."""
        if self.low >= limit if least else self.high <= limit:
            return True
        if self.high < limit if least else self.low > limit:
            return False
        return None

    def rows_to_decide(self, limit: float) -> int | None:
        """About how many rows would decide, None where only all do (or the value is on the limit)."""
        distance = abs(self.value - limit)
        if distance == 0:
            return None
        # Rows of a kind that was not drawn may move the value, however little the drawn ones differ.
        beyond = limit if limit < self.value else 1 - limit
        wanted = max((self.spread / distance) ** 2, beyond / distance)
        found = max(self.rows + 1, math.ceil(QUANTILE**2 * wanted))
        return None if self.population is not None and found >= self.population else found


def proportion(hits: int, rows: int, population: int | None = None) -> Interval:
    """A share of rows with Wilson's score interval (Wilson 1927; no continuity correction).

    It ends where none, and all, of the rows of the population that were not drawn are hits.
    """
    if rows == 0:
        return Interval(0.0, 0.0, 1.0, 0, 0.5, population)
    share, square = hits / rows, QUANTILE**2
    centre = (share + square / (2 * rows)) / (1 + square / rows)
    half = QUANTILE / (1 + square / rows) * math.sqrt(share * (1 - share) / rows + square / (4 * rows**2))
    none = 0.0 if population is None else hits / population
    every = 1.0 if population is None else (hits + population - rows) / population
    low = none if hits == 0 else max(none, centre - half)
    high = every if hits == rows else min(every, centre + half)
    return Interval(share, low, high, rows, math.sqrt(share * (1 - share)), population)


def ratio_of_sums(
    parts: NDArray[np.int64], wholes: NDArray[np.int64], population: int | None = None
) -> Interval:
    """sum(parts) / sum(wholes) over sampled rows, with the delta method's interval (Cochran 1977, 6.3).

    Rows that are alike say nothing of another kind that was not drawn: up to z² / (n + z²) of all rows may be
    of it (Wilson 1927, no hit among n). So the ends lie at least where these would move the ratio with parts
    of 0, or equal to their wholes, and wholes as large as the mean of those drawn. Rows that weigh more than
    that have no bound, however few of the population were not drawn.

    Args:
        parts, wholes: int64[n], what each row adds above and below the line.
    """
    rows, whole = len(wholes), float(wholes.sum())
    if rows < 2 or whole == 0:
        return Interval(1.0, 0.0, 1.0, rows, 0.5, population)
    value = float(parts.sum()) / whole
    spread = float(np.std(parts - value * wholes, ddof=1)) / (whole / rows)
    half = QUANTILE * spread / math.sqrt(rows)
    unseen = QUANTILE**2 / (rows + QUANTILE**2)
    low = max(0.0, value - max(half, unseen * value))
    high = min(1.0, value + max(half, unseen * (1 - value)))
    return Interval(value, low, high, rows, spread, population)
