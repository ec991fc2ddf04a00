"""Each sample exactly once: what is said of pieces that were put down by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.packing.conservation import Coverage, conservation
from pytest_longctx.packing.match import UNKNOWN


class Samples(list):
    """Token ids of samples named a, b, c."""

    ledger = SimpleNamespace(ids=["a", "b", "c"])

    def __getitem__(self, place):
        return SimpleNamespace(ids=np.array(super().__getitem__(place), np.int32))


def told(texts, parts, delivered=None, lengths=None, fed=None):
    samples = Samples(texts)
    wanted = np.array([len(text) for text in texts] if lengths is None else lengths)
    expected = SimpleNamespace(lengths=wanted, fed=np.array([True] * len(texts) if fed is None else fed))
    counts = np.array([0] * len(texts) if delivered is None else delivered)
    witnesses = conservation(samples, expected, counts, Coverage(samples, wanted, dict(parts)))
    return [(w.id, w.expected, w.found) for w in witnesses]


SIX = [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([(0, 6)], None),
        ([(3, 6), (0, 3)], None),
        ([(0, 1), (1, 5), (5, 6)], None),
        ([], "lost"),
        ([(0, 3)], "cut, 3 tokens lost"),
        ([(2, 6)], "cut, 2 tokens lost"),
        ([(1, 3), (4, 6)], "cut, 2 tokens lost"),
        ([(0, 4), (2, 6)], "2 tokens twice"),
        ([(0, 6), (2, 4)], "2 tokens twice"),
        ([(0, 3), (2, 5), (4, 6)], "2 tokens twice"),
    ],
)
def test_pieces_of_one_sample(parts, found):
    assert told([SIX], {0: parts} if parts else {}) == ([("a", "6 tokens once", found)] if found else [])


def test_whole_samples_are_counted():
    texts = [[1, 2], [3, 4, 5], [6]]
    assert told(texts, {}, delivered=[1, 1, 1]) == []
    assert told(texts, {}, delivered=[1, 3, 0]) == [
        ("b", "3 tokens once", "3 times"),
        ("c", "1 tokens once", "lost"),
    ]


def test_a_whole_sample_and_a_piece_of_it_again():
    assert told([SIX], {0: [(0, 2)]}, delivered=[1]) == [
        ("a", "6 tokens once", "once and 2 tokens of it again")
    ]


def test_a_piece_too_many_of_one_sample_is_the_lack_of_another():
    texts = [[1, 2, 3], [1, 2]]
    assert told(texts, {0: [(0, 2), (0, 3)]}) == []
    assert told(texts, {0: [(0, 2)]}, delivered=[1, 0]) == []
    assert told([[1, 2, 3], [1, 3]], {0: [(0, 2), (0, 3)]}) == [
        ("b", "2 tokens once", "lost"),
        ("a", "3 tokens once", "2 tokens twice"),
    ]


def test_a_lack_is_made_up_by_several_pieces():
    # What came too often of a, [1] and [2, 3], are the tokens of b.
    parts = {0: [(0, 4), (0, 1), (1, 3)]}
    assert told([[1, 2, 3, 4], [1, 2, 3]], parts) == []
    assert told([[1, 2, 3, 4], [1, 3, 2]], parts) == [
        ("b", "3 tokens once", "lost"),
        ("a", "4 tokens once", "1 tokens twice"),
        ("a", "4 tokens once", "2 tokens twice"),
    ]


def test_foreign_tokens_are_set_aside_whatever_their_number():
    # Of the row 7 1 2 8 9, two tokens are the sample, those around it are of none.
    samples, lengths = Samples([[1, 2]]), np.array([2])
    pieces = SimpleNamespace(
        start=np.array([0, 1, 3]),
        end=np.array([1, 3, 5]),
        sample=np.array([UNKNOWN, 0, UNKNOWN]),
        offset=np.array([0, 0, 0]),
        shuffled=np.array([False, False, False]),
    )
    batch = SimpleNamespace(ids=np.array([[7, 1, 2, 8, 9]]))
    coverage = Coverage(samples, lengths)
    coverage.add(SimpleNamespace(pieces=pieces, batch=batch, place=lambda start: (0, None, start)))
    expected = SimpleNamespace(lengths=lengths, fed=np.array([True]))
    found = conservation(samples, expected, np.array([1]), coverage)
    assert [(witness.id, witness.position, witness.found) for witness in found] == [
        ("row 0", 0, "1 tokens that no sample has"),
        ("row 0", 3, "2 tokens that no sample has"),
    ]


def test_what_the_plan_cuts_must_be_cut():
    assert told([SIX], {0: [(0, 2)]}, lengths=[2]) == []
    assert told([SIX], {0: [(0, 6)]}, lengths=[2]) == [
        ("a", "2 tokens once", "not cut, 4 tokens beyond the window")
    ]


def test_rejected_samples():
    assert told([SIX], {}, lengths=[0], fed=[False]) == []
    assert told([SIX], {}, lengths=[0]) == [("a", "to be counted", "dropped without a count")]
    assert told([SIX], {0: [(0, 2), (4, 5)]}, lengths=[0], fed=[False]) == [
        ("a", "no token", "3 tokens in a batch")
    ]


def test_a_sample_that_was_not_fed_is_not_missed_but_seen():
    assert told([SIX], {}, fed=[False]) == []
    assert told([SIX], {}, delivered=[2], fed=[False]) == [("a", "6 tokens once", "2 times")]
    assert told([SIX], {0: [(0, 5)]}, fed=[False]) == [("a", "6 tokens once", "cut, 1 tokens lost")]
