from __future__ import annotations

import tracemalloc
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx import lengths as lengths_module
from pytest_longctx.packing import reference
from pytest_longctx.packing.reference import best_fit_decreasing, first_fit_decreasing

PACKERS = [first_fit_decreasing, best_fit_decreasing]


def longest_first(lengths):
    return sorted(range(len(lengths)), key=lambda index: -lengths[index])


def naive_first_fit(lengths, capacity):
    rooms, members = [], []
    for index in longest_first(lengths):
        number = next((place for place, room in enumerate(rooms) if room >= lengths[index]), len(rooms))
        if number == len(rooms):
            rooms.append(capacity)
            members.append([])
        rooms[number] -= lengths[index]
        members[number].append(index)
    return members


def naive_best_fit(lengths, capacity):
    """Among the bins of the least room that fits, take the one whose room changed longest ago."""
    rooms, changed, members = [], [], []
    for clock, index in enumerate(longest_first(lengths)):
        fitting = [number for number, room in enumerate(rooms) if room >= lengths[index]]
        if fitting:
            number = min(fitting, key=lambda number: (rooms[number], changed[number]))
        else:
            number = len(rooms)
            rooms.append(capacity)
            changed.append(0)
            members.append([])
        rooms[number] -= lengths[index]
        changed[number] = clock
        members[number].append(index)
    return members


def bin_members(packing):
    offsets, samples = packing.rows()
    assert offsets.dtype == samples.dtype == np.int64
    return [samples[start:stop].tolist() for start, stop in pairwise(offsets)]


def random_lengths(random, capacity, size):
    """Lengths of one of several kinds: anything, heavy ties, near a half, near a third, many short ones."""
    kind = random.integers(5)
    if kind == 0:
        drawn = random.integers(1, capacity + 1, size)
    elif kind == 1:
        drawn = random.choice(random.integers(1, capacity + 1, 3), size)
    elif kind in (2, 3):
        drawn = capacity // int(kind) + random.integers(-2, 3, size)
    else:
        drawn = random.integers(1, max(2, capacity // 8), size)
    return np.clip(drawn, 1, capacity)


class TestByHand:
    def test_first_fit_goes_back_to_the_first_bin_with_room(self):
        packing = first_fit_decreasing([7, 6, 4, 3], 10)
        assert packing.bins.tolist() == [0, 1, 1, 0]
        assert packing.bins.dtype == np.int32
        assert packing.count == 2
        assert packing.utilization == 1.0

    def test_ties_go_by_input_order(self):
        packing = first_fit_decreasing([5, 2, 5, 2, 5], 12)
        # 5 (0) and 5 (2) open bin 0 and leave 2; 5 (4) opens bin 1; 2 (1) fits bin 0, 2 (3) bin 1.
        assert bin_members(packing) == [[0, 2, 1], [4, 3]]
        assert packing.utilization == 19 / 24

    def test_best_fit_takes_the_fullest_bin_where_first_fit_takes_the_first(self):
        lengths = [6, 7, 3]  # longest first: 7 opens bin 0 (room 4), 6 opens bin 1 (room 5)
        assert bin_members(best_fit_decreasing([*lengths, 1], 11)) == [[1, 2, 3], [0]]
        # 8 leaves 4, 7 leaves 5, 5 fills the second, 4 the first, then 2 opens a third.
        assert bin_members(best_fit_decreasing([8, 7, 5, 4, 2], 12)) == [[0, 3], [1, 2], [4]]

    def test_best_fit_and_first_fit_differ(self):
        # 10 opens bin 0 (room 5), 7 opens bin 1 (room 8), 6 goes there (room 2); 2 fits both.
        lengths = [10, 7, 6, 2]
        assert first_fit_decreasing(lengths, 15).bins.tolist() == [0, 1, 1, 0]
        assert best_fit_decreasing(lengths, 15).bins.tolist() == [0, 1, 1, 1]

    def test_best_fit_takes_equal_rooms_first_in_first_out(self):
        # 6 and 6 open bins 0 and 1, both with room 4; of the 3s the first goes to bin 0, the second to bin 1.
        assert best_fit_decreasing([3, 6, 3, 6], 10).bins.tolist() == [0, 0, 1, 1]

    @pytest.mark.parametrize("pack", PACKERS)
    def test_many_equal_lengths_fill_bins_one_after_the_other(self, pack):
        assert pack([4] * 8, 13).bins.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]

    @pytest.mark.parametrize("pack", PACKERS)
    def test_nothing_to_pack(self, pack):
        packing = pack([], 10)
        assert packing.bins.tolist() == []
        assert packing.count == 0
        assert packing.utilization == 0.0
        assert bin_members(packing) == []


class TestRefusals:
    @pytest.mark.parametrize("pack", PACKERS)
    @pytest.mark.parametrize(
        ("lengths", "capacity", "message"),
        [
            ([129], 128, "length 129 at index 0 exceeds the capacity of 128 tokens"),
            ([3, 0, 500], 128, "length 0 at index 1: a sample has at least 1 token"),
            ([3, 500, -1], 128, "length 500 at index 1 exceeds the capacity of 128 tokens"),
            ([3, 5, -1], 128, "length -1 at index 2: a sample has at least 1 token"),
            ([3], 0, "capacity must be at least 1 token, not 0"),
            ([], -1, "capacity must be at least 1 token, not -1"),
            ([1.5], 4, "lengths must be integers, not float64"),
            ([True], 4, "lengths must be integers, not bool"),
            ([[1, 2]], 4, r"lengths must be one-dimensional, not of shape \(1, 2\)"),
        ],
    )
    def test_first_offender_is_named(self, pack, lengths, capacity, message):
        with pytest.raises(ValueError, match=f"^{message}$"):
            pack(lengths, capacity)


def test_first_fit_equals_the_naive_one_on_many_random_cases():
    random = np.random.default_rng(20260729)
    for _ in range(5_000):
        capacity = int(
            random.choice([1, 2, 7, 12, 60, 100, 1_000, 32_768, 65_535, 65_536, 65_537, 1_048_576])
        )
        lengths = random_lengths(random, capacity, int(random.integers(0, 40)))
        assert bin_members(first_fit_decreasing(lengths, capacity)) == naive_first_fit(
            lengths.tolist(), capacity
        )


def test_best_fit_equals_the_naive_one_on_many_random_cases():
    random = np.random.default_rng(7)
    for _ in range(2_000):
        capacity = int(random.choice([1, 2, 7, 12, 60, 100, 1_000, 65_537, 1_048_576]))
        lengths = random_lengths(random, capacity, int(random.integers(0, 40)))
        assert bin_members(best_fit_decreasing(lengths, capacity)) == naive_best_fit(
            lengths.tolist(), capacity
        )


ALL = [(first_fit_decreasing, naive_first_fit), (best_fit_decreasing, naive_best_fit)]


@pytest.mark.parametrize(("pack", "naive"), ALL)
@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_equals_the_naive_one_whatever_the_input(pack, naive, data):
    capacity = data.draw(st.integers(1, 40))
    lengths = data.draw(st.lists(st.integers(1, capacity), max_size=60))
    assert bin_members(pack(lengths, capacity)) == naive(lengths, capacity)


@pytest.mark.parametrize(("pack", "naive"), ALL)
def test_equals_the_naive_one_on_all_few_lengths(pack, naive):
    for number in range(1, 6):
        for lengths in combinations_with_replacement(range(1, 8), number):
            packing = pack(lengths, 7)
            assert bin_members(packing) == naive(lengths, 7)
            assert packing.count == max(packing.bins) + 1


@pytest.mark.parametrize(("pack", "naive"), ALL)
@pytest.mark.parametrize("capacity", [10, 12])
def test_equals_the_naive_one_on_all_counts_of_some_lengths(pack, naive, capacity):
    """Each of the lengths up to 5 times: bins of one pattern, runs of bins, and parts of a run."""
    for counts in product((0, 1, 2, 5), (0, 3), (0, 2, 5), (0, 2, 5), (0, 1)):
        lengths = np.repeat([6, 4, 3, 2, 1], counts).tolist()
        assert bin_members(pack(lengths, capacity)) == naive(lengths, capacity)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
)
@pytest.mark.parametrize("pack", PACKERS)
def test_any_integer_type(pack, dtype):
    lengths = np.array([100, 27, 90, 38, 1], dtype)
    assert bin_members(pack(lengths, 128)) == [[0, 1, 4], [2, 3]]


@pytest.mark.parametrize("pack", PACKERS)
def test_blocks_do_not_show(pack, monkeypatch):
    lengths = np.random.default_rng(3).integers(1, 50, 3_000)
    whole = pack(lengths, 100).bins
    monkeypatch.setattr(reference, "_BLOCK", 64)
    monkeypatch.setattr(lengths_module, "_BLOCK", 64)
    assert np.array_equal(pack(lengths, 100).bins, whole)


@pytest.mark.parametrize("pack", PACKERS)
def test_lengths_too_long_for_a_table(pack):
    lengths = [6_000_000_000, 5_000_000_000, 5_000_000_000, 3, 4_000_000_000, 3]
    # 6 leaves 4 thousand million: the 4; 5 + 5 leave nothing; the 3s open a third bin.
    assert bin_members(pack(lengths, 10_000_000_000)) == [[0, 4], [1, 2], [3, 5]]


def test_longest_length_of_16_bits_and_the_next():
    # 16 bits do not hold 65,536: it must not be taken for 0. 300,000 samples are counted in a table.
    lengths = np.ones(300_000, np.int32)
    lengths[[0, 3]] = 65_536
    lengths[2] = 65_535
    packing = first_fit_decreasing(lengths, 65_537)
    # Each 65,536 leaves room for one 1, 65,535 for two; four more bins hold 65,537 of them, one the rest.
    assert packing.bins[[0, 3, 2]].tolist() == [0, 1, 2]
    assert packing.bins[[1, 4, 5, 6, 7]].tolist() == [0, 1, 2, 2, 3]
    assert np.bincount(packing.bins).tolist() == [2, 2, 3, *[65_537] * 4, 300_000 - 7 - 4 * 65_537]


@pytest.mark.parametrize("pack", PACKERS)
def test_lengths_of_more_than_20_bits_keep_their_order(pack):
    lengths = [1 << 20, 5, (1 << 20) + 3, 7, (1 << 21) - 1]
    offsets, samples = pack(lengths, 1 << 23).rows()
    assert offsets.tolist() == [0, 5]
    assert samples.tolist() == [4, 2, 0, 3, 1]


@pytest.mark.parametrize("pack", PACKERS)
def test_the_first_that_cannot_be_packed_is_named(pack):
    with pytest.raises(ValueError, match="length 0 at index 1: a sample has at least 1 token"):
        pack([1, 0, 9], 8)
    with pytest.raises(ValueError, match="length 9 at index 2 exceeds the capacity of 8 tokens"):
        pack([1, 8, 9, 0], 8)


def test_large_input_is_a_packing():
    lengths = np.random.default_rng(11).integers(1, 1_000, 300_000).astype(np.int32)
    packing = first_fit_decreasing(lengths, 1_000)
    filled = np.bincount(packing.bins, weights=lengths)
    assert packing.count == filled.size
    assert filled.max() <= 1_000
    offsets, samples = packing.rows()
    assert np.array_equal(np.sort(samples), np.arange(300_000))
    assert np.array_equal(packing.bins[samples], np.repeat(np.arange(packing.count), np.diff(offsets)))


def test_best_fit_equals_trl_bin_for_bin():
    pyarrow = pytest.importorskip("pyarrow")
    data_utils = pytest.importorskip("trl.data_utils", reason="trl is not installed")
    random = np.random.default_rng(42)
    # 1,024 values are where Arrow's sort begins to count instead of comparing.
    for size in [*random.integers(1, 80, 300).tolist(), 1_023, 1_024, 3_000]:
        capacity = int(random.choice([1, 2, 7, 33, 100, 1_000, 1_025]))
        lengths = random_lengths(random, capacity, size)
        offsets = pyarrow.array(np.concatenate([[0], np.cumsum(lengths)]), pyarrow.int32())
        identities = pyarrow.array(np.repeat(np.arange(size), lengths))
        table = pyarrow.table({"input_ids": pyarrow.ListArray.from_arrays(offsets, identities)})
        packed = data_utils._pack_bfd(table, capacity)["input_ids"]
        expected = [list(dict.fromkeys(row.values.to_numpy().tolist())) for row in packed]
        assert bin_members(best_fit_decreasing(lengths, capacity)) == expected


@pytest.mark.parametrize("pack", PACKERS)
def test_memory_is_at_most_40_bytes_a_sample(pack):
    lengths = np.random.default_rng(2).integers(1, 32_769, 1_000_000).astype(np.int32)
    tracemalloc.start()
    try:
        packing = pack(lengths, 32_768)
        packing.rows()
        assert tracemalloc.get_traced_memory()[1] <= 40 * lengths.size
    finally:
        tracemalloc.stop()
