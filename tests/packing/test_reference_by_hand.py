"""The parts of the reference packers, on a few numbers: how bins are planned, and how samples get them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pytest_longctx.packing import reference
from pytest_longctx.packing.reference import (
    Packing,
    _assign,
    _expand,
    _plan_best_fit,
    _plan_first_fit,
    _Rooms,
    _Runs,
    _stable_order,
    checked_lengths,
)


def planned(runs):
    """A plan's runs: (index of the length, first bin, bins, samples in each)."""
    return [tuple(run) for run in np.reshape(runs._numbers, (-1, 4)).tolist()]


def runs_of(*runs):
    made = _Runs()
    for run in runs:
        made.add(*run)
    return made


class TestPacking:
    def test_utilization_is_the_filled_share_of_all_bins(self):
        lengths = np.array([100, 27, 90, 38, 1], np.uint8)  # 256 in all: more than 8 bits hold
        packing = Packing(np.array([0, 0, 1, 1, 0], np.int32), 2, 160, lengths)
        assert packing.utilization == 256 / 320

    def test_rows_are_longest_first_and_ties_by_input(self):
        bins = np.array([1, 0, 1, 1, 0, 3, 1], np.int32)
        packing = Packing(bins, 4, 99, np.array([5, 7, 9, 5, 8, 1, 9]))
        offsets, samples = packing.rows()
        assert offsets.tolist() == [0, 2, 6, 6, 7]
        assert samples.tolist() == [4, 1, 2, 6, 0, 3, 5]
        assert (offsets.dtype, samples.dtype) == (np.int64, np.int64)

    def test_rows_of_nothing(self):
        packing = Packing(np.zeros(0, np.int32), 0, 9, np.zeros(0, np.int64))
        offsets, samples = packing.rows()
        assert (offsets.tolist(), samples.tolist(), packing.utilization) == ([0], [], 0.0)
        assert (offsets.dtype, samples.dtype) == (np.int64, np.int64)


class TestCheckedLengths:
    def test_from_1_to_the_capacity(self):
        assert checked_lengths([1, 4, 2], 4).tolist() == [1, 4, 2]
        assert checked_lengths([1], 1).tolist() == [1]
        assert checked_lengths([], 1).tolist() == []

    @pytest.mark.parametrize(
        ("lengths", "message"),
        [
            ([1, 2, 5, 0], "length 5 at index 2 exceeds the capacity of 4 tokens"),
            ([1, 4, 0, 5], "length 0 at index 2: a sample has at least 1 token"),
            ([0], "length 0 at index 0: a sample has at least 1 token"),
            ([4, 4, -3], "length -3 at index 2: a sample has at least 1 token"),
        ],
    )
    def test_the_first_other_is_named(self, lengths, message):
        with pytest.raises(ValueError, match=f"^{message}$"):
            checked_lengths(lengths, 4)

    def test_a_capacity_of_less_than_a_token(self):
        with pytest.raises(ValueError, match=r"^capacity must be at least 1 token, not 0$"):
            checked_lengths([], 0)


class TestRuns:
    # Longest first: two in each of bins 0–2, then one in 5; four in bin 3; one in each of 4 and 5.
    RUNS = ((2, 0, 3, 2), (0, 4, 2, 1), (1, 3, 1, 4), (2, 5, 1, 1))
    SEQUENCE = (0, 0, 1, 1, 2, 2, 5, 3, 3, 3, 3, 4, 5)

    def test_a_plan_has_no_bins_at_first(self):
        assert _Runs().count == 0

    @pytest.mark.parametrize("block", [1, 2, 3, 4, 6, 7, 8, 13, 99])
    def test_bins_in_placement_order(self, block, monkeypatch):
        monkeypatch.setattr(reference, "_BLOCK", block)
        sequence = runs_of(*self.RUNS).bin_sequence()
        assert sequence.tolist() == list(self.SEQUENCE)
        assert sequence.dtype == np.int32

    def test_expand(self):
        found = _expand(np.array([5, 0, 9]), np.array([2, 3, 1]), np.array([1, 2, 3]))
        assert found.tolist() == [5, 6, 0, 0, 1, 1, 2, 2, 9, 9, 9]
        assert found.dtype == np.int32

    @pytest.mark.parametrize(
        ("sizes", "blocks"),
        [
            # A block ends with the run that reaches 4, 8, 12, … samples.
            ([2, 2, 3, 1, 1, 3], [4, 4, 4]),
            ([1, 1, 1, 1, 1, 1, 1, 1, 1], [4, 4, 1]),
            ([9, 1, 1, 1], [9, 3]),
            ([3, 2, 2, 2], [5, 4]),
            ([4, 4], [4, 4]),
            ([5], [5]),
        ],
    )
    def test_blocks_hold_as_much_as_they_should(self, sizes, blocks, monkeypatch):
        monkeypatch.setattr(reference, "_BLOCK", 4)
        expanded = []

        def spy(first, bins, each):
            expanded.append(int((bins * each).sum()))
            return _expand(first, bins, each)

        monkeypatch.setattr(reference, "_expand", spy)
        made = runs_of(*((0, 10 * place, 1, size) for place, size in enumerate(sizes)))
        assert made.bin_sequence().tolist() == np.repeat(10 * np.arange(len(sizes)), sizes).tolist()
        assert expanded == blocks


class TestPlans:
    def test_first_fit_plans_bins_of_one_pattern_at_once(self):
        # 6 + 3 three times while there are three 3s; then 6 + 2 + 2 once, 6 + 2, and 6 alone.
        plan = _plan_first_fit([2, 3, 6], [3, 3, 6], 10)
        assert planned(plan) == [
            *((3, 0, 3, 1), (2, 0, 3, 1)),
            *((3, 3, 1, 1), (1, 3, 1, 2)),
            *((3, 4, 1, 1), (1, 4, 1, 1)),
            (3, 5, 1, 1),
        ]
        assert plan.count == 6

    def test_best_fit_plans_runs_of_bins(self):
        # Five bins of one 6 each, with room for 4; two of them take a 3, the next two 2s, the next a 2.
        plan = _plan_best_fit([2, 3, 6], [3, 2, 5], 10)
        assert planned(plan) == [(2, 0, 5, 1), (1, 0, 2, 1), (0, 2, 1, 2), (0, 3, 1, 1)]
        assert plan.count == 5

    def test_best_fit_opens_bins_where_none_has_room(self):
        # 4 + 4 twice, with room for 2, and 4 alone, with room for two 3s; the other two 3s open a bin.
        plan = _plan_best_fit([3, 4], [4, 5], 10)
        assert planned(plan) == [(1, 0, 2, 2), (1, 2, 1, 1), (0, 2, 1, 2), (0, 3, 1, 2)]
        assert plan.count == 4


class TestRooms:
    def test_the_least_room_that_fits(self):
        rooms = _Rooms()
        assert rooms.least(1) == 0
        for room in (5, 2, 9):
            rooms.put(room, room, 1)
        assert [rooms.least(size) for size in range(1, 11)] == [2, 2, 5, 5, 5, 9, 9, 9, 9, 0]

    def test_hundreds_of_rooms(self):
        rooms = _Rooms()
        for room in range(1, 400):
            rooms.put(room, room, 1)
        assert [rooms.least(size) for size in (1, 399, 400, 401)] == [1, 399, 0, 0]

    def test_full_bins_are_left_out(self):
        rooms = _Rooms()
        rooms.put(0, 3, 4)
        assert rooms.least(0) == 0
        assert rooms._queues == {}

    def test_of_equal_rooms_the_first_that_came(self):
        rooms = _Rooms()
        rooms.put(4, 10, 3)
        rooms.put(6, 20, 1)
        rooms.put(4, 5, 2)
        assert rooms.take(4, 2) == (10, 2)
        assert rooms.take(4, 5) == (12, 1)
        assert rooms.least(4) == 4
        assert rooms.take(4, 1) == (5, 1)
        assert rooms.take(4, 1) == (6, 1)
        assert rooms.least(4) == 6  # none of 4 is left
        assert rooms.take(6, 9) == (20, 1)
        assert rooms.least(1) == 0


class TestAssign:
    # Sorted: 9 (2), 7 (1, 4), 3 (0, 3, 5) — the bins of the sequence in this order.
    LENGTHS = (3, 7, 9, 3, 7, 3)
    BINS = (13, 11, 10, 14, 12, 15)

    @pytest.mark.parametrize("dense", [False, True])
    @pytest.mark.parametrize("block", [1, 2, 3, 4, 5, 6, 7])
    def test_each_sample_gets_the_next_bin_of_its_length(self, dense, block, monkeypatch):
        monkeypatch.setattr(reference, "_BLOCK", block)
        monkeypatch.setattr(reference, "is_dense", lambda longest, samples: dense)
        sequence = np.arange(10, 16, dtype=np.int32)
        bins = _assign(np.array(self.LENGTHS), np.array([3, 7, 9]), np.array([3, 2, 1]), sequence)
        assert bins.tolist() == list(self.BINS)
        assert bins.dtype == np.int32

    def test_is_dense_is_asked_with_the_longest_and_the_number(self, monkeypatch):
        asked = []
        monkeypatch.setattr(reference, "is_dense", lambda *what: asked.append(what) or True)
        _assign(np.array([2, 5, 2]), np.array([2, 5]), np.array([2, 1]), np.arange(3, dtype=np.int32))
        assert asked == [(5, 3)]


class TestStableOrder:
    @pytest.mark.parametrize(
        ("keys", "order"),
        [
            ([3, 1, 3, 0, 1], [3, 1, 4, 0, 2]),
            ([0, 0, 0], [0, 1, 2]),
            ([65_536, 65_535, 0, 65_536], [2, 1, 0, 3]),
            ([65_537, 131_072, 1, 65_536, 2], [2, 4, 3, 0, 1]),
            ([1 << 32, 1, 1 << 16, (1 << 32) + 1, 1 << 32], [1, 2, 0, 4, 3]),
            ([1 << 48, (1 << 48) - 1, 1 << 33, 1 << 62, 1 << 48], [2, 1, 0, 4, 3]),
        ],
    )
    def test_by_key_then_by_place(self, keys, order):
        assert _stable_order(np.array(keys)).tolist() == order

    @pytest.mark.parametrize(
        ("highest", "passes"), [(65_535, 1), (65_536, 2), ((1 << 32) - 1, 2), (1 << 32, 3)]
    )
    def test_as_many_passes_as_there_are_digits(self, highest, passes, monkeypatch):
        sorts = []
        argsort = np.argsort
        monkeypatch.setattr(np, "argsort", lambda *what, **how: sorts.append(how) or argsort(*what, **how))
        _stable_order(np.array([0, highest]))
        assert sorts == [{"kind": "stable"}] * passes

    def test_many(self):
        keys = np.random.default_rng(1).integers(0, 200_000, 500)
        expected = sorted(range(500), key=lambda place: keys[place])
        assert _stable_order(keys).tolist() == expected
        assert all(keys[a] <= keys[b] for a, b in pairwise(_stable_order(keys)))
