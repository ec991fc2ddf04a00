"""Intervals against published and hand-computed values."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.intervals import proportion, ratio_of_sums


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


def test_a_ratio_without_spread_is_sharp():
    wholes = np.array([10, 20, 30])
    interval = ratio_of_sums(wholes, wholes)
    assert (interval.value, interval.low, interval.high) == (1.0, 1.0, 1.0)


def test_a_ratio_by_hand():
    """Ratio 30/40; residuals 10-7.5, 0-7.5, 10-7.5, 10-7.5 have deviation 5; over a mean of 10: 0.5."""
    interval = ratio_of_sums(np.array([10, 0, 10, 10]), np.array([10, 10, 10, 10]))
    assert interval.value == 0.75
    assert interval.spread == pytest.approx(0.5)
    assert interval.low == pytest.approx(0.75 - 1.95996 * 0.5 / 2, abs=1e-4)
    assert interval.high == 1.0
