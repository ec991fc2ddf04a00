"""Which sample a stretch of tokens is, on a few samples put down by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing import match
from pytest_longctx.packing.hashing import prefix_hashes
from pytest_longctx.packing.match import UNKNOWN, SampleIndex, exact_hashes
from pytest_longctx.testing import Case


def index_of(*rows, labels=None, lengths=None, capacity=10):
    columns = zip(rows, labels or rows, strict=True)
    samples = Case([{"input_ids": ids, "labels": own} for ids, own in columns]).samples
    wanted = [len(row) for row in rows] if lengths is None else lengths
    return SampleIndex(samples, np.array(wanted, np.int64), capacity)


def look_up(index, ids, lengths):
    return index.look_up(np.array(ids), np.array(lengths)).tolist()


def match_up(index, ids, lengths, labels=None):
    """The pieces of segments that follow each other."""
    ids, ends = np.array(ids), np.cumsum(lengths)
    labels = ids if labels is None else np.array(labels)
    return index.match(ids, labels, prefix_hashes(ids), ends - lengths, ends)


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


def test_each_sample_may_come_whole_or_cut_at_the_capacity():
    # The first should come whole, the second cut to one token, the third not at all.
    index = index_of([9], [1, 2, 3], [5, 6, 7], lengths=[1, 1, 0], capacity=2)
    lengths = [1, 2, 3, 1, 2, 3]
    pieces = match_up(index, [1, 1, 2, 1, 2, 3, 5, 5, 6, 5, 6, 7], lengths)
    assert pieces.sample.tolist() == [1, 1, 1, UNKNOWN, 2, 2]
    assert not pieces.shuffled.any()
    assert index.delivered.tolist() == [0, 1, 0]  # only what came as it should counts


@pytest.mark.parametrize(
    ("rows", "lengths"), [([[1, 2], []], [2, 0]), ([[1, 2], [7, 8]], [2, 0]), ([[1, 2], [7]], [2, 0])]
)
def test_a_segment_of_no_tokens_is_no_sample(rows, lengths):
    index = index_of(*rows, lengths=lengths)
    assert look_up(index, [1, 2], [0, 2, 0]) == [UNKNOWN, 0, UNKNOWN]
    assert match_up(index, [1, 2], [0, 2, 0]).sample.tolist() == [UNKNOWN, 0, UNKNOWN]
    assert index.delivered.tolist() == [1, 0]


def test_strangers_are_in_no_other_order():
    pieces = match_up(index_of([1, 2, 3]), [8, 9, 3, 1, 2, 7], [2, 3, 1])
    assert pieces.sample.tolist() == [UNKNOWN, 0, UNKNOWN]
    assert pieces.shuffled.tolist() == [False, True, False]
    assert not pieces.known.any()


def test_the_longest_of_several_that_stand_whole():
    index, ids = index_of([1, 2], [1, 2, 3], [2]), prefix_hashes(np.array([1, 2, 3, 9]))
    assert [index.longest_whole(ids, at, 4) for at in range(4)] == [1, 2, UNKNOWN, UNKNOWN]
    assert index.longest_whole(ids, 0, 2) == 0  # only two tokens are left
    index.delivered[1] = 1  # rather a shorter one that was not seen
    assert index.longest_whole(ids, 0, 4) == 0
    index.delivered[0] = 1
    assert index.longest_whole(ids, 0, 4) == 1


def test_the_longest_may_stand_anywhere():
    index, ids = index_of([1, 2, 3]), prefix_hashes(np.array([9, 1, 2, 3]))
    assert [index.longest_whole(ids, at, 4) for at in range(4)] == [UNKNOWN, 0, UNKNOWN, UNKNOWN]
    assert index.longest_whole(ids, 1, 3) == UNKNOWN


def test_of_equal_samples_that_stand_whole_the_next_and_at_last_the_last():
    index, ids = index_of([1, 2], [3], [1, 2], [1, 2]), prefix_hashes(np.array([1, 2]))
    for next_one in (0, 2, 3):
        assert index.longest_whole(ids, 0, 2) == next_one
        index.delivered[next_one] = 1
    assert index.longest_whole(ids, 0, 2) == 3


def test_whether_one_sample_stands_whole():
    index, ids = index_of([1, 2], [1, 2, 3], [2], [7, 7], lengths=[2, 3, 1, 0]), [1, 2, 3, 9]
    found = {
        (at, sample) for at in range(4) for sample in range(4)
        if index.is_whole(prefix_hashes(np.array(ids)), at, 4, sample)
    }  # fmt: skip
    assert found == {(0, 0), (0, 1), (1, 2)}
    assert not index.is_whole(prefix_hashes(np.array(ids)), 0, 2, 1)
    assert index.is_whole(prefix_hashes(np.array(ids)), 0, 3, 1)  # up to the end


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_sample_may_end_where_the_row_does(at):
    ids = prefix_hashes(np.array([*[7, 8, 9][:at], 1, 2, 3]))
    assert index_of([1, 2, 3]).is_whole(ids, at, at + 3, 0)
    assert not index_of([1, 2, 3]).is_whole(ids, at, at + 2, 0)


@pytest.mark.parametrize("tokens", [1, 2, 3, 5, 100])
def test_samples_are_found_whatever_the_block(tokens, monkeypatch):
    monkeypatch.setattr(match, "BLOCK_TOKENS", tokens)
    rows = [[1, 2, 3], [4], [5, 6], [7, 8, 9, 10], [11, 12], [13]]
    ids, lengths = [one for row in rows[::-1] for one in row], [len(row) for row in rows[::-1]]
    assert look_up(index_of(*rows), ids, lengths) == [5, 4, 3, 2, 1, 0]


def test_no_more_than_a_block_is_hashed_at_once_unless_one_sample_is_longer(monkeypatch):
    monkeypatch.setattr(match, "BLOCK_TOKENS", 4)
    index = index_of([1, 2], [3, 4], [5, 6, 7], [8], [9, 10, 11, 12, 13], [14])
    hashed = []

    def note(ids, starts, ends):
        hashed.append(ids.tolist())
        return exact_hashes(ids, starts, ends)

    index.table(index.lengths, index.lengths > 0, note)
    assert hashed == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12, 13], [14]]


def test_hundreds_of_samples():
    numbers = list(range(300))
    assert look_up(index_of(*([one] for one in numbers)), numbers[::-1], [1] * 300) == numbers[::-1]


def test_equal_samples_come_in_turn_and_the_last_again():
    index, ids = index_of([1, 2], [3], [1, 2]), np.array([1, 2, 1, 2, 3, 1, 2, 2, 1])
    starts, ends = np.array([0, 2, 4, 5, 7]), np.array([2, 4, 5, 7, 9])
    pieces = index.match(ids, ids, prefix_hashes(ids), starts, ends)
    assert pieces.sample.tolist() == [0, 2, 1, 2, 2]
    assert pieces.shuffled.tolist() == [False] * 4 + [True]
    assert pieces.known.tolist() == [True] * 4 + [False]
    assert index.delivered.tolist() == [1, 1, 3]


def test_each_of_several_groups_of_equal_samples_comes_in_turn():
    index = index_of([1, 2], [3, 4], [5, 6], [1, 2], [3, 4], [5, 6], [7, 8])
    pieces = match_up(index, [5, 6, 1, 2, 3, 4, 7, 8, 3, 4, 5, 6, 1, 2], [2] * 7)
    assert pieces.sample.tolist() == [2, 0, 1, 6, 4, 5, 3]
    assert index.delivered.tolist() == [1] * 7
