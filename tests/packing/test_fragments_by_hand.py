"""Rows taken apart into whole samples, parts and foreign tokens, on a few samples put down by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing import fragments
from pytest_longctx.packing.fragments import Fragments, _common_lengths
from pytest_longctx.packing.hashing import prefix_hashes
from pytest_longctx.packing.match import UNKNOWN, SampleIndex
from pytest_longctx.testing import Case

NOTHING = (UNKNOWN, 0, 0)
UP = list(range(1, 13))
"""A sample of the ids 1 to 12."""


def of(*rows):
    samples = Case([{"input_ids": row, "labels": row} for row in rows]).samples
    return Fragments(samples, SampleIndex(samples, np.array([len(row) for row in rows], np.int64), 100))


@pytest.fixture
def large(monkeypatch):
    """Any samples are so many that eight tokens are looked up, not one."""
    monkeypatch.setattr(fragments, "SMALL", 0)


def apart(found, ids, start=0, end=None):
    return found.take_apart(np.array(ids), start, len(ids) if end is None else end)


def part(found, ids, at=0, bounded=True):
    return found._part(prefix_hashes(np.array(ids)), at, len(ids), bounded=bounded)


def known(found, ids):
    return found._known_places(prefix_hashes(np.array(ids, np.int64)), len(ids)).tolist()


class TestIndex:
    def test_positions_and_ends(self):
        found = of([1, 2, 3], [4, 5])
        assert found.gram == 1
        assert found.ends.tolist() == [3, 3, 3, 5, 5]
        assert sorted(found.order.tolist()) == [0, 1, 2, 3, 4]
        assert (found.hashes[1:] > found.hashes[:-1]).all()
        single = [int(prefix_hashes(np.array([one]))[1]) for one in [1, 2, 3, 4, 5]]
        assert found.hashes.tolist() == [single[at] for at in found.order.tolist()]

    def test_few_tokens_are_looked_up_one_by_one(self, monkeypatch):
        monkeypatch.setattr(fragments, "SMALL", 12)
        assert of(UP).gram == of([1], UP[1:]).gram == 1
        assert of(UP, [1]).gram == 8

    @pytest.mark.parametrize(("tokens", "positions"), [(0, 0), (5, 0), (7, 0), (8, 1), (9, 2), (12, 5)])
    def test_of_eight_tokens_each_position_with_seven_behind_it(self, tokens, positions, large):
        assert sorted(of(UP[:tokens]).order.tolist()) == list(range(positions))


class TestKnownPlaces:
    def test_of_one_token(self):
        assert known(of([1, 2], [5]), [9, 1, 8, 7, 5, 2]) == [1, 4, 5]
        assert known(of([1, 2]), []) == known(of([]), [1, 2]) == []

    def test_beyond_all_that_is_indexed(self):
        strangers = list(range(50, 80))
        assert known(of([3]), strangers) == known(of([3, 4]), strangers) == []
        assert known(of([3]), [*strangers, 3, *strangers]) == [30]

    def test_of_eight_tokens(self, large):
        found = of(UP[:9])
        assert known(found, [70, *UP[:9], 70]) == [1, 2]
        assert known(found, UP[:8]) == [0]
        assert known(found, UP[:7]) == known(found, [1]) == known(found, []) == []
        assert known(of(UP[:7]), UP[:8]) == []


class TestWhole:
    """At the start of a row of 1, 2, 3, 9; the samples are [7], [1, 2], [1, 2, 3] and [2]."""

    @pytest.fixture
    def found(self):
        return of([7], [1, 2], [1, 2, 3], [2])

    @pytest.fixture
    def whole(self, found):
        def whole(at=0, size=4, pieces=()):
            behind = [(0, 0, sample, 0) for sample in pieces]
            return found._whole(prefix_hashes(np.array([1, 2, 3, 9])), at, size, behind)

        return whole

    def test_the_longest(self, found, whole):
        assert whole() == (2, 0, 3)
        assert found.index.delivered.tolist() == [0, 0, 1, 0]
        assert whole() == (1, 0, 2)
        assert whole() == (2, 0, 3)
        assert found.index.delivered.tolist() == [0, 1, 2, 0]

    def test_not_beyond_the_end(self, whole):
        assert whole(size=2) == (1, 0, 2)
        assert whole(size=1) == NOTHING

    def test_none(self, found, whole):
        assert whole(at=2) == whole(at=3) == NOTHING
        assert found.index.delivered.tolist() == [0, 0, 0, 0]

    def test_rather_the_one_after_the_last(self, found, whole):
        assert whole(pieces=[2, UNKNOWN, 0]) == (1, 0, 2)
        assert found.index.delivered.tolist() == [0, 1, 0, 0]
        assert whole(pieces=[2, UNKNOWN, 0]) == (2, 0, 3)  # it came before

    def test_the_one_after_the_last_is_elsewhere(self, whole):
        assert whole(pieces=[0, 2]) == (2, 0, 3)

    def test_the_second_after_an_odd_one(self):
        found, prefix = of([7], [8], [1], [1, 2]), prefix_hashes(np.array([1, 2]))
        assert found._whole(prefix, 0, 2, [(0, 1, 0, 0), (1, 2, 1, 0)]) == (2, 0, 1)

    def test_none_comes_after_the_last_sample(self, whole):
        assert whole(at=1, pieces=[3]) == (3, 0, 1)

    @pytest.mark.parametrize("pieces", [[], [UNKNOWN], [1, UNKNOWN]])
    def test_without_a_last_one_the_longest(self, pieces):
        found, prefix = of([1, 2], [5], [1, 2, 3]), prefix_hashes(np.array([1, 2, 3]))
        assert found._whole(prefix, 0, 3, [(0, 0, sample, 0) for sample in pieces]) == (2, 0, 3)


class TestPart:
    def test_eight_tokens_are_no_chance_wherever_they_stand(self):
        assert part(of(UP), [*UP[2:10], 99], bounded=False) == (0, 2, 8)
        assert part(of([70, 71], UP), [99, *UP[2:11], 99], at=1, bounded=False) == (1, 2, 9)

    @pytest.mark.parametrize("bounded", [False, True])
    def test_seven_tokens_that_end_nowhere_are(self, bounded):
        assert part(of(UP), [*UP[2:9], 99], bounded=bounded) == NOTHING
        assert part(of(UP), [*UP[:7], 99], bounded=bounded) == NOTHING

    def test_fewer_count_from_border_to_border(self):
        found = of([50], UP)
        assert part(found, [11, 12, 99]) == part(found, [99, 11, 12, 99], at=1) == (1, 10, 2)
        assert part(found, [5, 6]) == part(found, [99, 5, 6], at=1) == (1, 4, 2)
        for ids in ([11, 12, 99], [5, 6]):
            assert part(found, ids, bounded=False) == NOTHING

    def test_a_samples_start_is_a_border(self):
        found = of([50], UP)
        assert part(found, [1, 2], bounded=False) == part(found, [9, 1, 2], at=1, bounded=False) == (1, 0, 2)
        assert part(found, [1, 2, 99]) == NOTHING

    def test_one_token(self):
        assert part(of([4, 5]), [5]) == (0, 1, 1)
        assert part(of([4, 5]), [6]) == NOTHING
        assert part(of([4, 5, 6]), [99, 5], at=1) == (0, 1, 1)

    def test_not_beyond_the_sample(self):
        found = of([1, 2, 3], [4, 5])
        assert part(found, [1, 2, 3, 4, 5], at=1) == (0, 1, 2)
        assert part(found, [1, 2, 3, 4, 5], at=3) == (1, 0, 2)

    def test_a_sample_without_tokens_between(self):
        assert part(of([1, 2], [], [3, 4]), [3]) == (2, 0, 1)
        assert part(of([1, 2], [], [3, 4]), [4]) == (2, 1, 1)

    def test_rather_no_chance_than_longer(self):
        assert part(of(UP, [60, 1, 2]), [*UP[:7], 99]) == (1, 1, 2)
        assert part(of([60, 1, 2], UP), [*UP[:7], 99]) == (0, 1, 2)

    def test_rather_longer_than_up_to_an_end(self):
        for rows, sample in (((UP, [60, *UP[1:9]]), 0), (([60, *UP[1:9]], UP), 1)):
            assert part(of(*rows), [*UP[1:10], 99]) == (sample, 1, 9)

    def test_rather_up_to_an_end_than_from_a_start(self):
        for rows, sample in ((([*UP[:8], 60], [61, *UP[:8]]), 1), (([61, *UP[:8]], [*UP[:8], 60]), 0)):
            assert part(of(*rows), [*UP[:8], 99]) == (sample, 1, 8)

    def test_rather_from_a_start_than_not_seen(self):
        for rows, sample in ((([1, 2], [60, 1, 2]), 0), (([60, 1, 2], [1, 2]), 1)):
            found = of(*rows)
            found.index.delivered[sample] = 1
            assert part(found, [1, 2]) == (sample, 0, 2)

    @pytest.mark.parametrize("seen", [0, 1])
    @pytest.mark.parametrize("times", [1, 2])
    def test_rather_not_seen(self, seen, times):
        found = of([1, 2, 3], [1, 2, 3])
        found.index.delivered[seen] = times
        assert part(found, [2, 3]) == (1 - seen, 1, 2)


class TestPartOfManySamples:
    """Eight tokens are looked up; fewer at the end of a row only where samples start."""

    def test_eight_tokens(self, large):
        found = of([50, 51], UP)
        assert part(found, UP[:8]) == (1, 0, 8)
        assert part(found, [9, *UP[3:], 70], at=1, bounded=False) == (1, 3, 9)
        assert part(found, [*UP[5:], 70]) == NOTHING

    def test_all_eight_in_one_sample(self, large):
        assert part(of(UP[:5], UP[5:]), UP) == NOTHING
        assert part(of(UP[:8], UP[8:]), UP) == (0, 0, 8)

    @pytest.mark.parametrize("sample", range(6))
    def test_starts_of_samples(self, sample, large):
        rows = [[one, one + 1, one + 2] for one in (10, 20, 30, 40, 50, 60)]
        found, ids = of(*rows), np.array([9, *rows[sample][:2]])
        assert found._candidates(prefix_hashes(ids), 1, 2).tolist() == [3 * sample]
        assert part(found, ids, at=1, bounded=False) == (sample, 0, 2)
        assert part(found, [rows[sample][1]]) == NOTHING

    def test_starts_without_so_many_tokens_behind(self, large):
        assert part(of([1, 2, 3], [4]), [4, 5]) == part(of([1], [2, 3]), [1, 2]) == NOTHING
        assert part(of([1, 2, 3], [4, 5]), [4, 5]) == (1, 0, 2)

    def test_the_last_token_of_a_row(self, large):
        assert part(of([1, 2, 3], [4, 5]), [7, 8, 9, 4], at=3) == (1, 0, 1)


@pytest.mark.parametrize("room", range(1, 11))
def test_common_tokens(room):
    """The first number of tokens in common is 1, then 2, and so on; only so many as there is room for."""
    ids = np.arange(20)
    left = np.concatenate([[*range(3, 3 + same), *[90 + same] * (10 - same)] for same in range(1, 11)])
    positions = np.arange(10) * 10
    given = (prefix_hashes(left), positions, prefix_hashes(ids), 3, 1, np.full(10, room))
    assert _common_lengths(*given).tolist() == [min(same, room) for same in range(1, 11)]


def test_common_tokens_of_positions_with_other_room():
    left, right = (
        prefix_hashes(np.array([1, 2, 3, 4, 5, 1, 2, 9])),
        prefix_hashes(np.array([7, 1, 2, 3, 4, 8])),
    )
    assert _common_lengths(left, np.array([0, 5, 0]), right, 1, 1, np.array([5, 3, 2])).tolist() == [4, 2, 2]


class TestTakeApart:
    """The samples are [1, 2, 3] and [4, 5]."""

    @pytest.fixture
    def found(self):
        return of([1, 2, 3], [4, 5])

    @pytest.mark.parametrize(
        ("ids", "pieces"),
        [
            ([4, 5, 1, 2, 3], [(0, 2, 1, 0), (2, 5, 0, 0)]),
            ([1, 2, 3, 1, 2, 3], [(0, 3, 0, 0), (3, 6, 0, 0)]),
            ([70, 71, 1, 2, 3, 72], [(0, 2, -1, 0), (2, 5, 0, 0), (5, 6, -1, 0)]),
            ([70, 1, 2, 3, 71, 72], [(0, 1, -1, 0), (1, 4, 0, 0), (4, 6, -1, 0)]),
            ([70, 71], [(0, 2, -1, 0)]),
            ([2, 3, 4, 5], [(0, 2, 0, 1), (2, 4, 1, 0)]),
            ([4, 5, 2, 3], [(0, 2, 1, 0), (2, 4, 0, 1)]),
            ([1, 2], [(0, 2, 0, 0)]),
            ([2], [(0, 1, 0, 1)]),
            ([], []),
        ],
    )
    def test_pieces(self, found, ids, pieces):
        assert apart(found, ids) == pieces

    def test_whole_samples_are_counted(self, found):
        apart(found, [4, 5, 2, 3, 1, 2, 3, 4, 5, 70])
        assert found.index.delivered.tolist() == [1, 2]

    def test_a_stretch_of_a_row(self, found):
        ids = [4, 5, 70, 1, 2, 3, 2, 3, 70, 4, 5]
        assert apart(found, ids, 3, 6) == [(3, 6, 0, 0)]
        assert apart(found, ids, 2, 9) == [(2, 3, -1, 0), (3, 6, 0, 0), (6, 8, 0, 1), (8, 9, -1, 0)]
        assert apart(found, ids, 2, 5) == [(2, 3, -1, 0), (3, 5, 0, 0)]

    def test_what_agrees_by_chance_joins_the_foreign_tokens_around_it(self, found):
        assert apart(found, [70, 2, 71, 1, 2, 3]) == [(0, 3, -1, 0), (3, 6, 0, 0)]
        assert apart(found, [1, 2, 3, 70, 2, 71]) == [(0, 3, 0, 0), (3, 6, -1, 0)]
        assert apart(found, [70, 71, 2, 2, 71, 4, 5], 1) == [(1, 5, -1, 0), (5, 7, 1, 0)]

    def test_behind_foreign_tokens_is_no_border(self, found):
        assert apart(found, [70, 2, 3, 4, 5]) == [(0, 3, -1, 0), (3, 5, 1, 0)]
        assert apart(found, [70, 4, 5, 2, 3]) == [(0, 1, -1, 0), (1, 3, 1, 0), (3, 5, 0, 1)]
        assert apart(found, [4, 5, 70, 2, 3, 71]) == [(0, 2, 1, 0), (2, 6, -1, 0)]

    def test_a_long_sample_in_two_parts(self, large):
        found, ids = of([50, 51], list(range(100, 120))), [*range(110, 120), *range(100, 110)]
        assert apart(found, [70, *ids, 50, 51]) == [
            (0, 1, -1, 0),
            (1, 11, 1, 10),
            (11, 21, 1, 0),
            (21, 23, 0, 0),
        ]
        assert found.index.delivered.tolist() == [1, 0]

    def test_equal_samples_in_turn(self):
        found = of([1, 2], [3], [1, 2])
        assert [sample for _, _, sample, _ in apart(found, [1, 2, 3, 1, 2, 1, 2])] == [0, 1, 2, 2]
