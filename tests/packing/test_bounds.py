from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing.bounds import minimum_rows
from pytest_longctx.packing.reference import first_fit_decreasing


def optimum(lengths, capacity):
    """Least number of rows, by trying every assignment."""
    best = len(lengths)

    def place(index, rooms):
        nonlocal best
        if len(rooms) >= best:
            return
        if index == len(lengths):
            best = len(rooms)
            return
        for room in dict.fromkeys(rooms):
            if room >= lengths[index]:
                others = list(rooms)
                others.remove(room)
                place(index + 1, [*others, room - lengths[index]])
        place(index + 1, [*rooms, capacity - lengths[index]])

    place(0, [])
    return best


@pytest.mark.parametrize(
    ("lengths", "capacity", "rows"),
    [
        ([], 10, 0),
        ([10], 10, 1),
        ([1] * 21, 10, 3),
        ([6, 6, 6], 10, 3),  # no two share a row, though 18 tokens would fit in two
        ([5, 5, 5], 10, 2),
        ([7, 7, 4, 4], 10, 3),  # the 4s fit beside no 7 but share a row; 22 tokens alone also need three
        ([7, 7, 4], 10, 3),  # 18 tokens would fit in two rows; at t = 4 the 4 has no room beside a 7
        ([6, 6, 4, 4], 10, 2),
        ([9, 6, 5, 5, 2], 10, 3),  # 27 tokens
        ([6, 5, 5, 5, 5, 5], 10, 4),  # 31 tokens
        ([4, 4, 4, 4], 11, 2),  # L2 sees 16 tokens only in two rows of 11
    ],
)
def test_by_hand(lengths, capacity, rows):
    assert minimum_rows(lengths, capacity) == rows


def test_never_above_the_optimum_nor_below_the_tokens():
    random = np.random.default_rng(5)
    tight = 0
    for _ in range(1_500):
        capacity = int(random.integers(2, 31))
        lengths = random.integers(1, capacity + 1, int(random.integers(1, 9))).tolist()
        bound, best = minimum_rows(lengths, capacity), optimum(lengths, capacity)
        assert -(-sum(lengths) // capacity) <= bound <= best
        tight += bound == best
    assert tight > 1_400  # Martello and Toth report the bound as nearly always tight on such cases


def test_first_fit_decreasing_is_never_below_it():
    random = np.random.default_rng(6)
    for _ in range(300):
        capacity = int(random.choice([50, 4_096, 1_048_576]))
        lengths = random.integers(1, capacity + 1, int(random.integers(1, 200)))
        assert minimum_rows(lengths, capacity) <= first_fit_decreasing(lengths, capacity).count


def test_sums_beyond_32_bits():
    assert minimum_rows(np.full(10_000, 1_000_000, np.int32), 1_048_576) == 10_000


def test_refusals():
    with pytest.raises(ValueError, match="length 11 at index 1 exceeds the capacity of 10 tokens"):
        minimum_rows([3, 11], 10)
