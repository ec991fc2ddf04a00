"""Distribution of lengths: histograms, nearest-rank percentiles, shares of short and long samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

IntArray = npt.NDArray[np.integer[Any]]
Int64Array = npt.NDArray[np.int64]

_BLOCK = 1 << 18  # samples counted at once, so that numpy's widened copy of them stays in the cache


def integers(values: Sequence[int] | IntArray, name: str) -> IntArray:
    """Return `values` as a one-dimensional integer array; anything else raises ValueError."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {array.shape}")
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, not {array.dtype}")
    return array.astype(np.int64) if array.dtype == np.uint64 else array  # numpy does not count the latter


def is_dense(longest: int, samples: int) -> bool:
    """Whether a table with a cell for every length is smaller than the columns over the samples."""
    return longest <= samples // 2


def count_lengths(lengths: IntArray) -> tuple[Int64Array, Int64Array]:
    """Return the distinct lengths, ascending, and how many samples have each (both int64).

    Lengths are ≥ 0. Few or very long ones are sorted instead of counted.
    """
    if lengths.size == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    longest = int(lengths.max())
    if not is_dense(longest, lengths.size):
        values, counts = np.unique(lengths, return_counts=True)
        return values.astype(np.int64), counts.astype(np.int64)
    table = np.zeros(longest + 1, np.int64)
    block = max(_BLOCK, longest)
    for start in range(0, lengths.size, block):
        table += np.bincount(lengths[start : start + block], minlength=longest + 1)
    present = np.flatnonzero(table)
    return present.astype(np.int64), table[present]


@dataclass(frozen=True, slots=True, eq=False)
class LengthHistogram:
    """How many samples have which length, in tokens. Histograms of shards merge exactly."""

    values: Int64Array  # int64[d], distinct lengths, ascending
    counts: Int64Array  # int64[d], samples of each length, all ≥ 1

    @classmethod
    def of(cls, lengths: Sequence[int] | IntArray) -> LengthHistogram:
        """Count `lengths` (integers ≥ 0; else ValueError)."""
        array = integers(lengths, "lengths")
        if array.size and int(array.min()) < 0:
            index = int(np.argmax(array < 0))
            raise ValueError(f"length {int(array[index])} at index {index} is negative")
        return cls(*count_lengths(array))

    def merge(self, other: LengthHistogram) -> LengthHistogram:
        """Return the histogram of both sets of samples together."""
        both = np.concatenate([self.values, other.values])
        values, places = np.unique(both, return_inverse=True)
        counts = np.zeros(values.size, np.int64)
        np.add.at(counts, places, np.concatenate([self.counts, other.counts]))
        return LengthHistogram(values, counts)

    @property
    def count(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    @property
    def total(self) -> int:
        """Number of tokens."""
        return int(self.values @ self.counts)

    @property
    def longest(self) -> int:
        """Longest length in tokens, 0 when there is no sample."""
        return int(self.values[-1]) if self.values.size else 0

    def percentile(self, percent: int) -> int:
        """Return the nearest-rank percentile, 0 when there is no sample.

        It is the length at rank ceil(percent / 100 x count) of the ascending lengths, so always one that
        occurs; percent 0 gives the shortest.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile lies between 0 and 100, not at {percent}")
        if not self.values.size:
            return 0
        rank = max(1, -(-percent * self.count // 100))
        return int(self.values[np.searchsorted(np.cumsum(self.counts), rank)])

    def up_to(self, length: int) -> int:
        """Return the number of samples with at most `length` tokens."""
        return int(self.counts[: np.searchsorted(self.values, length, side="right")].sum())


@dataclass(frozen=True, slots=True)
class LengthSummary:
    """The distribution in a few numbers. Lengths are in tokens, percentiles are nearest-rank."""

    count: int
    total: int
    longest: int
    p50: int
    p95: int
    short: int  # samples with length ≤ short_threshold
    medium: int  # samples in between
    long: int  # samples with length > long_threshold

    @property
    def buckets(self) -> dict[str, int]:
        """Samples by bucket."""
        return {"short": self.short, "medium": self.medium, "long": self.long}

    @property
    def shares(self) -> dict[str, float]:
        """Share of the samples by bucket, each 0.0 when there is no sample."""
        return {name: number / max(1, self.count) for name, number in self.buckets.items()}


def summarize(
    lengths: Sequence[int] | IntArray | LengthHistogram, short_threshold: int, long_threshold: int
) -> LengthSummary:
    """Summarize lengths. Raises ValueError for negative lengths or thresholds, or long < short."""
    if short_threshold < 0:
        raise ValueError(f"short_threshold {short_threshold} is negative")
    if long_threshold < short_threshold:
        raise ValueError(f"long_threshold {long_threshold} is below short_threshold {short_threshold}")
    histogram = lengths if isinstance(lengths, LengthHistogram) else LengthHistogram.of(lengths)
    short, not_long = histogram.up_to(short_threshold), histogram.up_to(long_threshold)
    return LengthSummary(
        count=histogram.count,
        total=histogram.total,
        longest=histogram.longest,
        p50=histogram.percentile(50),
        p95=histogram.percentile(95),
        short=short,
        medium=not_long - short,
        long=histogram.count - not_long,
    )
