from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.lengths import LengthHistogram, integers, is_dense, summarize


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


def test_the_longest_length_may_stand_in_one_block_alone():
    # 600,000 samples are counted in blocks of 262,144; 3 stands only in the first, 2 only in the last.
    lengths = np.ones(600_000, np.int32)
    lengths[0], lengths[-1] = 3, 2
    histogram = LengthHistogram.of(lengths)
    assert histogram.values.tolist() == [1, 2, 3]
    assert histogram.counts.tolist() == [599_998, 1, 1]


def test_lengths_without_a_sign_are_counted():
    histogram = LengthHistogram.of(np.array([2, 1, 1, 1], np.uint64))  # few: sorted; more: counted
    assert histogram.values.tolist() == [1, 2]
    assert histogram.values.dtype == histogram.counts.dtype == np.int64
    histogram = LengthHistogram.of(np.ones(10, np.uint64))
    assert (histogram.values.tolist(), histogram.counts.tolist()) == ([1], [10])


@pytest.mark.parametrize(
    ("dtype", "kept"), [(np.uint64, np.int64), (np.uint32, np.uint32), (np.int16, np.int16)]
)
def test_only_the_type_that_older_numpy_does_not_count_is_changed(dtype, kept):
    assert integers(np.array([1], dtype), "lengths").dtype == kept


def test_one_sample_in_each_bucket():
    assert summarize([1, 5, 9], 1, 5).buckets == {"short": 1, "medium": 1, "long": 1}


@pytest.mark.parametrize(("value", "shape"), [(3, r"\(\)"), ([[1, 2]], r"\(1, 2\)")])
def test_lengths_of_another_shape(value, shape):
    with pytest.raises(ValueError, match=f"^lengths must be one-dimensional, not of shape {shape}$"):
        LengthHistogram.of(value)


def test_the_first_negative_length_is_named():
    with pytest.raises(ValueError, match=r"^length -1 at index 2 is negative$"):
        LengthHistogram.of([0, 1, -1, -2])
    with pytest.raises(ValueError, match=r"^length -1 at index 0 is negative$"):
        LengthHistogram.of([-1])


def test_percentiles_of_a_hundred():
    # Lengths 1 to 100: the percentile p is p. Of 200 there are two samples a percent.
    summary = summarize(list(range(1, 101)), 10, 90)
    assert (summary.p50, summary.p95) == (50, 95)
    summary = summarize(list(range(1, 201)), 10, 90)
    assert (summary.p50, summary.p95) == (100, 190)
    assert summary.buckets == {"short": 10, "medium": 80, "long": 110}
    assert LengthHistogram.of(range(1, 10_001)).percentile(99) == 9_900
    assert LengthHistogram.of([7]).percentile(0) == 7


def test_a_share_of_one_sample():
    assert summarize([5], 5, 5).shares == {"short": 1.0, "medium": 0.0, "long": 0.0}


@pytest.mark.parametrize(
    ("longest", "samples", "dense"), [(5, 10, True), (1, 10, True), (5, 11, True), (6, 11, False)]
)
def test_a_table_is_worth_it_for_two_samples_a_cell(longest, samples, dense):
    assert is_dense(longest, samples) is dense


def test_a_length_beyond_any_table():
    histogram = LengthHistogram.of([2**60, 1])
    assert (histogram.values.tolist(), histogram.counts.tolist()) == ([1, 2**60], [1, 1])
