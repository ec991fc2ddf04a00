"""Which sample a stretch of tokens is, on a few samples put down by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing import match
from pytest_longctx.packing.hashing import prefix_hashes
from pytest_longctx.packing.match import UNKNOWN, SampleIndex
from pytest_longctx.testing import Case


def index_of(*rows, lengths=None, capacity=10):
    samples = Case([{"input_ids": row, "labels": row} for row in rows]).samples
    wanted = [len(row) for row in rows] if lengths is None else lengths
    return SampleIndex(samples, np.array(wanted, np.int64), capacity)


def look_up(index, ids, lengths):
    return index.look_up(np.array(ids), np.array(lengths)).tolist()


def test_segments_of_a_row_are_looked_up_and_not_counted():
    index = index_of([1, 2, 3], [4, 5])
    assert look_up(index, [4, 5, 1, 2, 3, 9, 1, 2], [2, 3, 1, 2]) == [1, 0, UNKNOWN, UNKNOWN]
    assert index.delivered.tolist() == [0, 0]


def test_a_sample_is_known_cut_as_planned_whole_and_cut_at_the_capacity():
    index = index_of([1, 2, 3, 4], [5, 6], lengths=[2, 2], capacity=3)
    ids, lengths = [1, 2, 1, 2, 3, 1, 2, 3, 4, 1, 5, 6], [2, 3, 4, 1, 2]
    assert look_up(index, ids, lengths) == [0, 0, 0, UNKNOWN, 1]
    ends = np.cumsum(lengths)
    recognised = index.recognise(prefix_hashes(np.array(ids)), ends - lengths, ends)
    assert recognised.tolist() == [True, True, True, False, True]


def test_a_rejected_sample_is_known_where_it_came_all_the_same():
    index = index_of([1, 2, 3], [4, 5], lengths=[0, 2], capacity=2)
    assert look_up(index, [1, 2, 3, 4, 5, 1, 2], [3, 2, 2]) == [0, 1, 0]


def test_the_longest_of_several_that_stand_whole():
    index, ids = index_of([1, 2], [1, 2, 3], [2]), prefix_hashes(np.array([1, 2, 3, 9]))
    assert [index.longest_whole(ids, at, 4) for at in range(4)] == [1, 2, UNKNOWN, UNKNOWN]
    assert index.longest_whole(ids, 0, 2) == 0  # only two tokens are left
    index.delivered[1] = 1  # rather a shorter one that was not seen
    assert index.longest_whole(ids, 0, 4) == 0
    index.delivered[0] = 1
    assert index.longest_whole(ids, 0, 4) == 1


def test_whether_one_sample_stands_whole():
    index, ids = index_of([1, 2], [1, 2, 3], [2], [7, 7], lengths=[2, 3, 1, 0]), [1, 2, 3, 9]
    found = {
        (at, sample) for at in range(4) for sample in range(4)
        if index.is_whole(prefix_hashes(np.array(ids)), at, 4, sample)
    }  # fmt: skip
    assert found == {(0, 0), (0, 1), (1, 2)}
    assert not index.is_whole(prefix_hashes(np.array(ids)), 0, 2, 1)


@pytest.mark.parametrize("tokens", [1, 2, 3, 5, 100])
def test_samples_are_found_whatever_the_block(tokens, monkeypatch):
    monkeypatch.setattr(match, "BLOCK_TOKENS", tokens)
    rows = [[1, 2, 3], [4], [5, 6], [7, 8, 9, 10], [11, 12], [13]]
    ids, lengths = [one for row in rows[::-1] for one in row], [len(row) for row in rows[::-1]]
    assert look_up(index_of(*rows), ids, lengths) == [5, 4, 3, 2, 1, 0]


def test_equal_samples_come_in_turn_and_the_last_again():
    index, ids = index_of([1, 2], [3], [1, 2]), np.array([1, 2, 1, 2, 3, 1, 2, 2, 1])
    starts, ends = np.array([0, 2, 4, 5, 7]), np.array([2, 4, 5, 7, 9])
    pieces = index.match(ids, ids, prefix_hashes(ids), starts, ends)
    assert pieces.sample.tolist() == [0, 2, 1, 2, 2]
    assert pieces.shuffled.tolist() == [False] * 4 + [True]
    assert pieces.known.tolist() == [True] * 4 + [False]
    assert index.delivered.tolist() == [1, 1, 3]
