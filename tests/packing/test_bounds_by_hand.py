from __future__ import annotations

import pytest

from pytest_longctx.packing.bounds import minimum_rows


@pytest.mark.parametrize(
    ("lengths", "capacity", "rows"),
    [
        ([7, 7, 4, 4, 4, 1], 10, 4),  # no 4 fits beside a 7, and three need two rows; 27 tokens
        ([8, 3, 3, 3, 3, 1], 10, 3),  # 12 tokens in 3s beside no 8
        ([9, 9, 9, 7, 4, 4, 3, 3, 1], 10, 6),  # 3 fits beside the 7 alone: 11 of 14 tokens need two rows
        ([13, 11, 8, 5, 2, 2, 1, 1], 13, 4),  # 11 tokens beside 13 + 11 + 8, where 7 have room
        ([3, 3, 2], 5, 2),
        ([3, 2, 2], 5, 2),
    ],
)
def test_samples_that_are_smaller_than_the_decisive_ones(lengths, capacity, rows):
    assert minimum_rows(lengths, capacity) == rows
