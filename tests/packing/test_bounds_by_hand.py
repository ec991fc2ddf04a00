from __future__ import annotations

import pytest

from pytest_longctx.packing.bounds import minimum_rows


@pytest.mark.parametrize(
    ("lengths", "capacity", "rows"),
    [
        ([7, 7, 4, 4, 4, 1], 10, 4),  # no 4 fits beside a 7, and three need two rows; 27 tokens
        ([8, 3, 3, 3, 3, 1], 10, 3),  # 12 tokens in 3s beside no 8
        ([3, 3, 2], 5, 2),
        ([3, 2, 2], 5, 2),
    ],
)
def test_samples_that_are_smaller_than_the_decisive_ones(lengths, capacity, rows):
    assert minimum_rows(lengths, capacity) == rows
