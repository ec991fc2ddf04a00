"""Intervals against published and hand-computed values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_longctx.intervals import Interval, proportion, ratio_of_sums


@pytest.mark.parametrize(
    ("hits", "rows", "low", "high"),
    [
        # Newcombe 1998, table I, method 3 (Wilson score).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_as_published(hits, rows, low, high):
    interval = proportion(hits, rows)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)


def test_decisions_on_both_sides():
    interval = proportion(15, 148)
    assert interval.decides(0.2, least=False) is True
    assert interval.decides(0.05, least=False) is False
    assert interval.decides(0.1, least=False) is None
    assert interval.decides(0.05, least=True) is True
    assert interval.decides(0.2, least=True) is False


def test_the_size_that_decides_does():
    """As many rows with the same share are decided, and clearly fewer are not."""
    interval = proportion(30, 1000)
    wanted = interval.rows_to_decide(0.035)
    assert wanted == 4472  # (1.96 × sqrt(0.03 × 0.97) / 0.005)², rounded up
    assert proportion(round(0.03 * 2 * wanted), 2 * wanted).decides(0.035, least=False) is True
    assert proportion(round(0.03 * wanted / 2), wanted // 2).decides(0.035, least=False) is None


def test_no_size_decides_a_value_on_the_limit():
    assert proportion(10, 100).rows_to_decide(0.1) is None


def test_none_seen_needs_more_rows_for_a_small_limit():
    interval = proportion(0, 100)
    assert interval.decides(0.001, least=False) is None
    assert interval.rows_to_decide(0.001) == 3838  # (1.96 × sqrt(0.001 × 0.999) / 0.001)²


SQUARE = 3.8414588206941236  # z²


@pytest.mark.parametrize(
    ("kept", "low", "high"), [(1, 20 / (20 + SQUARE), 1.0), (0, 0.0, SQUARE / (20 + SQUARE))]
)
def test_rows_that_are_alike_bound_others_by_wilson(kept, low, high):
    """All or nothing of 20 rows is as much as 20 or 0 hits of 20, whatever the rows weigh."""
    wholes = np.array([10, 30] * 10)
    interval = ratio_of_sums(kept * wholes, wholes)
    assert (interval.value, interval.spread) == (kept, 0.0)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    counted = proportion(20 * kept, 20)
    assert (counted.low, counted.high) == pytest.approx((low, high))


def test_a_token_lost_in_one_row_makes_no_sharper_interval():
    """1999 of 2000: rows of another kind, z² / (20 + z²) of all, may keep nothing, or everything."""
    wholes = np.full(20, 100)
    interval = ratio_of_sums(wholes - np.eye(1, 20, dtype=np.int64)[0], wholes)
    assert (interval.value, interval.rows) == (0.9995, 20)
    assert interval.spread == pytest.approx(0.01 / math.sqrt(20))  # residuals 0.05 and -0.95, over 100
    assert interval.low == pytest.approx(0.9995 * 20 / (20 + SQUARE))
    assert interval.high == 1.0
    # z² · 0.9 / 0.0995 = 34.75; by the spread alone a single row would do.
    assert interval.rows_to_decide(0.9) == 35
    assert ratio_of_sums(np.full(35, 9995), np.full(35, 10_000)).low >= 0.9
    assert ratio_of_sums(np.full(34, 9995), np.full(34, 10_000)).low < 0.9


def test_a_ratio_by_hand():
    """Ratio 30/40; residuals 10-7.5, 0-7.5, 10-7.5, 10-7.5 have deviation 5; over a mean of 10: 0.5."""
    interval = ratio_of_sums(np.array([10, 0, 10, 10]), np.array([10, 10, 10, 10]))
    assert interval.value == 0.75
    assert interval.spread == pytest.approx(0.5)
    assert interval.low == pytest.approx(0.75 - 1.95996 * 0.5 / 2, abs=1e-4)
    assert interval.high == 1.0


def test_wilson_by_hand():
    """2 of 4 has its centre at 1/2 and z / (1 + z² / 4) · sqrt(1/16 + z² / 64) on both sides."""
    square = 3.8414588206941236
    half = math.sqrt(square) / (1 + square / 4) * math.sqrt(0.25 / 4 + square / 64)
    interval = proportion(2, 4)
    assert (interval.value, interval.rows, interval.spread) == (0.5, 4, 0.5)
    assert (interval.low, interval.high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-12)
    assert proportion(1, 5).spread == pytest.approx(0.4)


def test_all_or_none_end_at_the_ends():
    none, every = proportion(0, 7), proportion(7, 7)
    assert (none.value, none.low, none.spread) == (0.0, 0.0, 0.0)
    assert (every.value, every.high, every.spread) == (1.0, 1.0, 0.0)
    # Of n rows and no hit the upper end is z² / (n + z²).
    assert none.high == pytest.approx(3.8414588206941236 / 10.8414588206941236)
    assert every.low == pytest.approx(7 / 10.8414588206941236)
    for rows in range(1, 500):
        assert (proportion(0, rows).low, proportion(rows, int(str(rows))).high) == (0.0, 1.0)
    assert 0.0 < proportion(1, 7).low < 1 / 7 < proportion(1, 7).high < 1.0
    assert 0.0 < proportion(6, 7).low < 6 / 7 < proportion(6, 7).high < 1.0


@pytest.mark.parametrize(
    ("hits", "rows", "population", "low", "high"),
    [
        (0, 259, 260, 0.0, 1 / 260),
        (259, 259, 260, 259 / 260, 1.0),
        (3, 9, 10, 0.3, 0.4),
        (3, 10, 10, 0.3, 0.3),
        # Wilson's interval as published, with 15/200 for its lower end; 67/200 is beyond the upper one.
        (15, 148, 200, 0.075, 0.1605),
        (15, 148, 10_000, 0.0624, 0.1605),
    ],
)
def test_the_rows_that_were_not_drawn_bound_a_proportion(hits, rows, population, low, high):
    interval = proportion(hits, rows, population)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)
    assert (interval.value, interval.population) == (hits / rows, population)


def test_no_more_rows_decide_than_there_are():
    """By the spread alone it takes 3838 rows, as above."""
    assert proportion(0, 100, 3839).rows_to_decide(0.001) == 3838
    assert proportion(0, 100, 3838).rows_to_decide(0.001) is None
    assert proportion(0, 100, 200).rows_to_decide(0.001) is None
    wholes = np.full(20, 100)
    tokens = wholes - np.eye(1, 20, dtype=np.int64)[0]  # 35 rows, as above
    assert ratio_of_sums(tokens, wholes, 36).rows_to_decide(0.9) == 35
    assert ratio_of_sums(tokens, wholes, 35).rows_to_decide(0.9) is None
    assert ratio_of_sums(tokens, wholes, 21).low == ratio_of_sums(tokens, wholes).low
    assert proportion(0, 0, 7).population == ratio_of_sums(tokens[:1], wholes[:1], 7).population == 7


def test_no_rows_decide_nothing():
    assert proportion(0, 0) == Interval(0.0, 0.0, 1.0, 0, 0.5)
    assert ratio_of_sums(np.array([], int), np.array([], int)) == Interval(1.0, 0.0, 1.0, 0, 0.5)
    assert ratio_of_sums(np.array([3]), np.array([4])) == Interval(1.0, 0.0, 1.0, 1, 0.5)
    assert ratio_of_sums(np.array([0, 0]), np.array([0, 0])) == Interval(1.0, 0.0, 1.0, 2, 0.5)
    assert ratio_of_sums(np.array([1, 0]), np.array([1, 0])).value == 1.0


def test_an_end_on_the_limit_is_met_and_not_missed():
    interval = Interval(0.5, 0.25, 0.75, 10, 0.5)
    assert interval.decides(0.5, least=True) is interval.decides(0.5, least=False) is None
    assert interval.decides(0.25, least=True) is True
    assert interval.decides(0.75, least=True) is None
    assert interval.decides(0.76, least=True) is False
    assert interval.decides(0.75, least=False) is True
    assert interval.decides(0.25, least=False) is None
    assert interval.decides(0.24, least=False) is False


def test_rows_to_decide_are_more_than_there_are():
    # 1.96² · 0.25 / 0.3² = 10.7, 1.96² · 0.25 / 0.1² = 96.04, rounded up.
    interval = Interval(0.5, 0.25, 0.75, 50, 0.5)
    assert interval.rows_to_decide(0.2) == 51
    assert Interval(0.5, 0.25, 0.75, 51, 0.5).rows_to_decide(0.2) == 52
    assert Interval(0.5, 0.25, 0.75, 5, 0.5).rows_to_decide(0.2) == 11
    assert interval.rows_to_decide(0.4) == interval.rows_to_decide(0.6) == 97


def test_a_ratio_of_two_rows():
    """Ratio 5/20, residuals 5 - 10/4 and 0 - 10/4 have deviation 5/√2, over a mean of 10."""
    interval = ratio_of_sums(np.array([5, 0]), np.array([10, 10]))
    spread = 2.5 * math.sqrt(2) / 10
    assert (interval.value, interval.rows) == (0.25, 2)
    assert interval.spread == pytest.approx(spread)
    assert interval.low == 0.0
    # z · spread / √2 is 0.49: less than what others may add to the 3/4 that is missing.
    assert interval.high == pytest.approx(0.25 + 0.75 * SQUARE / (2 + SQUARE))


def test_a_ratio_of_rows_of_different_size():
    """Ratio 9/30; 400 times the residuals 0, 0.5, -0.5 have deviation √(200 / 1199), over a mean of 10."""
    interval = ratio_of_sums(np.tile([3, 2, 4], 400), np.tile([10, 5, 15], 400))
    assert (interval.value, interval.rows) == (0.3, 1200)
    spread = math.sqrt(200 / 1199) / 10
    assert interval.spread == pytest.approx(spread)
    half = 1.959963984540054 * spread / math.sqrt(1200)
    assert (interval.low, interval.high) == pytest.approx((0.3 - half, 0.3 + half))
