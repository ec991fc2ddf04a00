from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.lengths import LengthHistogram, summarize


def test_summary_by_hand():
    summary = summarize([64, 128, 300, 900], 128, 512)
    assert summary.buckets == {"short": 2, "medium": 1, "long": 1}
    assert summary.shares == {"short": 0.5, "medium": 0.25, "long": 0.25}
    assert (summary.count, summary.total, summary.longest) == (4, 1392, 900)
    assert (summary.p50, summary.p95) == (128, 900)


def test_thresholds_are_inclusive_below_and_exclusive_above():
    assert summarize([10, 11, 20, 21], 10, 20).buckets == {"short": 1, "medium": 2, "long": 1}


def test_equal_thresholds_leave_no_middle():
    assert summarize([10, 11], 10, 10).buckets == {"short": 1, "medium": 0, "long": 1}


def test_nothing():
    summary = summarize([], 1, 2)
    assert (summary.count, summary.total, summary.longest, summary.p50, summary.p95) == (0, 0, 0, 0, 0)
    assert summary.buckets == {"short": 0, "medium": 0, "long": 0}
    assert summary.shares == {"short": 0.0, "medium": 0.0, "long": 0.0}


def test_a_length_of_zero_counts():
    assert summarize([0, 0, 5], 0, 4).buckets == {"short": 2, "medium": 0, "long": 1}


@pytest.mark.parametrize(
    ("percent", "length"),
    [(0, 15), (5, 15), (20, 15), (21, 20), (30, 20), (40, 20), (50, 35), (60, 35), (61, 40), (100, 50)],
)
def test_nearest_rank_by_hand(percent, length):
    assert LengthHistogram.of([35, 20, 15, 50, 40]).percentile(percent) == length


@pytest.mark.parametrize("percent", [-1, 101])
def test_percentile_outside(percent):
    with pytest.raises(ValueError, match=f"a percentile lies between 0 and 100, not at {percent}"):
        LengthHistogram.of([1]).percentile(percent)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=120), st.integers(1, 100))
@settings(deadline=None, max_examples=200)
def test_percentile_is_the_definition(lengths, percent):
    rank = math.ceil(percent * len(lengths) / 100)
    if percent * len(lengths) % 100:
        assert rank == percent * len(lengths) // 100 + 1
    assert LengthHistogram.of(lengths).percentile(percent) == sorted(lengths)[rank - 1]


@given(st.lists(st.integers(0, 40), max_size=120), st.lists(st.integers(0, 10_000_000), max_size=20))
@settings(deadline=None, max_examples=200)
def test_merged_histograms_equal_the_whole(first, second):
    merged = LengthHistogram.of(first).merge(LengthHistogram.of(second))
    whole = LengthHistogram.of(first + second)
    assert merged.values.tolist() == whole.values.tolist() == sorted(set(first + second))
    assert merged.counts.tolist() == whole.counts.tolist()
    assert summarize(merged, 3, 30) == summarize(first + second, 3, 30)
    assert merged.total == sum(first + second)


def test_table_and_sort_count_alike():
    lengths = np.random.default_rng(1).integers(0, 1_000, 600_000).astype(np.int16)
    values, counts = np.unique(lengths, return_counts=True)
    histogram = LengthHistogram.of(lengths)
    assert np.array_equal(histogram.values, values)
    assert np.array_equal(histogram.counts, counts)


@pytest.mark.parametrize(
    ("lengths", "short", "long", "message"),
    [
        ([3, -1, -2], 1, 2, "length -1 at index 1 is negative"),
        ([3], 5, 4, "long_threshold 4 is below short_threshold 5"),
        ([3], -1, 4, "short_threshold -1 is negative"),
        ([1.0], 1, 4, "lengths must be integers, not float64"),
    ],
)
def test_refusals(lengths, short, long, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        summarize(lengths, short, long)
