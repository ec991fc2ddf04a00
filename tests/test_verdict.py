"""How far a value is from its limit."""

from __future__ import annotations

import pytest

from pytest_longctx.verdict import Verdict, headroom


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
