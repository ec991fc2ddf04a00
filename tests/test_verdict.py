"""How far a value is from its limit."""

from __future__ import annotations

import pytest

from pytest_longctx.verdict import Verdict, headroom, shown, shown_headroom, told_apart


@pytest.mark.parametrize(
    ("measured", "limit", "least", "expected"),
    [
        (0.07, 0.01, True, 6.0),
        (0.07, -0.01, True, 8.0),
        (-0.02, -0.01, True, -1.0),
        (-0.02, -0.01, False, 1.0),
        (0.0, -0.01, False, -1.0),
        (3, 4, False, 0.25),
        (5, 4, False, -0.25),
        (0, 0, False, 0.0),
        (1, 0, False, None),
        (None, 1, False, None),
    ],
)
def test_headroom_is_below_zero_beyond_the_limit_only(measured, limit, least, expected):
    """Also where the limit itself is below 0: a score that may fall by 0.01 and rose is far from it."""
    found = headroom(Verdict("passed", "x", measured, limit), least=least)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ratio", "–"),
        (0.033395, "ratio", "3.34 %"),
        (1.0, "ratio", "100 %"),
        (9120, "tokens", "9,120"),
        (67_001.5, "number", "67,002"),
        (9_999.96, "number", "10,000"),
        (1234.5, "number", "1,234"),
        (1.25e-7, "number", "1.25e-07"),
        (1.034, "factor", "1.03 ×"),
        (1e6, "ratio", "100,000,000 %"),
        (12.3456, "ratio", "1,234.56 %"),
        (1234.5, "factor", "1,234 ×"),
        (0.0000125, "factor", "0.0000125 ×"),
    ],
)
def test_values_as_people_read_them(value, unit, text):
    assert shown(value, unit) == text


@pytest.mark.parametrize(
    ("measured", "limit", "unit", "texts"),
    [
        (0.25, 0.2, "ratio", ("25 %", "20 %")),
        (0.0334, 0.033395, "ratio", ("3.34 %", "3.3395 %")),
        (1 - 1 / 181_000, 1.0, "ratio", ("99.999 %", "100 %")),
        (1 - 1e-12, 1.0, "ratio", ("99.9999999999 %", "100 %")),
        (67_001.5, 67_000.5, "number", ("67,002", "67,000")),
        (67_001.5, 67_001.6, "number", ("67,001.5", "67,001.6")),
        (67_000, 67_000.4, "number", ("67,000", "67,000.4")),
        (10.5001, 10.5, "number", ("10.5001", "10.5")),
        (0.0399999, 0.04, "number", ("0.0399999", "0.04")),
        (1e-7, 0, "ratio", ("0.00001 %", "0 %")),
        (10_001.0, 10_000.999, "ratio", ("1,000,100 %", "1,000,099.9 %")),
        (1234.5, 1234.6, "factor", ("1,234 ×", "1,235 ×")),
        (1.0301, 1.03, "factor", ("1.0301 ×", "1.03 ×")),
        (0.5, 0.5, "ratio", ("50 %", "50 %")),
        (0.7 - 0.6, 0.1, "number", ("0.1", "0.1")),
        (3, None, "tokens", ("3", "–")),
    ],
)
def test_values_that_differ_are_told_apart(measured, limit, unit, texts):
    """By as many digits as it takes, rounding errors left out."""
    assert told_apart(measured, limit, unit) == texts


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"),
        (0.214, "21 %"),
        (-1.0, "-100 %"),
        (9.99, "999 %"),
        (9.991, "> 999 %"),
        (-9.99, "-999 %"),
        (-9.991, "< -999 %"),
        (-157883.19, "< -999 %"),
    ],
)
def test_headroom_has_three_digits_at_most(share, text):
    assert shown_headroom(share) == text
