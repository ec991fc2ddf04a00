"""Each sample exactly once: what is said of pieces that were put down by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.packing import conservation as module
from pytest_longctx.packing.conservation import Coverage, conservation
from pytest_longctx.packing.match import UNKNOWN


class Samples(list):
    """Token ids of samples named a, b, c."""

    ledger = SimpleNamespace(ids=["a", "b", "c"])

    def __getitem__(self, place):
        return SimpleNamespace(ids=np.array(super().__getitem__(place), np.int32))


def covered(texts, parts, lengths=None):
    wanted = [len(text) for text in texts] if lengths is None else lengths
    return Coverage(Samples(texts), np.array(wanted, np.int64), dict(parts))


def judged(coverage, delivered=None, fed=None):
    number = len(coverage.lengths)
    expected = SimpleNamespace(
        lengths=coverage.lengths, fed=np.array([True] * number if fed is None else fed, np.bool_)
    )
    counts = np.array([0] * number if delivered is None else delivered)
    return list(conservation(coverage.samples, expected, counts, coverage))


def told(texts, parts, delivered=None, lengths=None, fed=None):
    witnesses = judged(covered(texts, parts, lengths), delivered, fed)
    return [(w.id, w.expected, w.found) for w in witnesses]


def a_row(ids, *pieces):
    """A batch of one row and its pieces: (start, end, sample, offset) each."""
    start, end, sample, offset = np.array(pieces).T
    return SimpleNamespace(
        pieces=SimpleNamespace(start=start, end=end, sample=sample, offset=offset),
        batch=SimpleNamespace(ids=np.array([ids])),
        place=lambda start: (0, None, start),
    )


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


def test_pieces_of_many_tokens():
    text = list(range(600))
    assert told([text], {0: [(at, at + 300) for at in (0, 300)]}) == []
    assert told([text], {0: [(0, 300), (301, 600)]}) == [("a", "600 tokens once", "cut, 1 tokens lost")]


def test_a_first_piece_of_one_token_is_no_piece_too_many():
    assert told([[1], [1, 2]], {1: [(0, 1), (1, 2)]}) == [("a", "1 tokens once", "lost")]


def test_a_piece_too_many_of_one_sample_is_the_lack_of_another():
    texts = [[1, 2, 3], [1, 2]]
    assert told(texts, {0: [(0, 2), (0, 3)]}) == []
    assert told(texts, {0: [(0, 2)]}, delivered=[1, 0]) == []
    assert told([[1, 2, 3], [1, 3]], {0: [(0, 2), (0, 3)]}) == [
        ("b", "2 tokens once", "lost"),
        ("a", "3 tokens once", "2 tokens twice"),
    ]


def test_equal_samples_that_are_cut_at_other_places():
    parts = [(0, 4), (4, 6), (0, 3), (3, 6)]
    assert told([SIX, SIX], {0: parts}) == []
    assert told([SIX, SIX], {0: [*parts[:2], (0, 2), (3, 6)]}) == [
        ("b", "6 tokens once", "lost"),
        ("a", "6 tokens once", "2 tokens twice"),
        ("a", "6 tokens once", "3 tokens twice"),
    ]
    assert told([SIX], {0: parts}) == [
        ("a", "6 tokens once", "3 tokens twice"),
        ("a", "6 tokens once", "3 tokens twice"),
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


def aside(whole, *spans):
    """Pieces of a sample that came as a whole and in these spans again."""
    return [(0, whole), *spans]


def again(whole, *sizes):
    return [("b", f"{whole} tokens once", f"{size} tokens twice") for size in sizes]


def test_a_lack_is_made_up_by_few_long_pieces_rather_than_by_many():
    # [1, 2] makes up a, and [1] the sample c; [2] is left.
    parts = {1: aside(3, (0, 2), (0, 1), (1, 2))}
    assert told([[1, 2], [1, 2, 9], [1]], parts) == again(3, 1)


def test_a_long_piece_is_left_where_short_ones_make_up_the_lack():
    # After [1, 2] there is no [3].
    assert told([[1, 2, 3], [1, 2, 3, 9]], {1: aside(4, (0, 2), (0, 1), (1, 3))}) == again(4, 2)


def test_pieces_are_tried_in_every_order():
    # Of 1 1 1, 1 1 and 1 none leads to the 2 at the end; 1 and then 1 1 1 1 2 do.
    parts = {1: aside(7, (0, 3), (0, 2), (0, 1), (1, 6))}
    assert told([[1, 1, 1, 1, 1, 2], [1, 1, 1, 1, 1, 2, 9]], parts) == again(7, 3, 2)


@pytest.mark.parametrize("number", [2, 3, 300])
def test_a_piece_makes_up_only_as_much_as_there_is_of_it(number):
    one = [(0, 1)] * number
    lost = ("a", f"{number + 1} tokens once", "lost")
    assert told([[1] * number, [1, 9]], {1: aside(2, *one)}) == []
    assert told([[1] * (number - 1), [1, 9]], {1: aside(2, *one)}) == again(2, 1)
    assert told([[1] * (number + 1), [1, 9]], {1: aside(2, *one)}) == [lost, *again(2, *[1] * number)]


def test_the_last_that_was_set_aside_is_used_first():
    samples = [[1, 2, 9], [1, 2, 8], [1, 2]]
    assert told(samples, {0: aside(3, (0, 2)), 1: aside(3, (0, 2))}) == [
        ("a", "3 tokens once", "2 tokens twice")
    ]


def test_equal_tokens_in_pieces_of_two_sizes():
    """There are millions of orders in which the pieces could follow each other, and none leads to the 2."""
    parts = {1: aside(60, *[(0, 1)] * 40, *[(0, 2)] * 40)}
    (lost, *rest) = told([[1] * 40 + [2], [1] * 60], parts)
    assert lost == ("a", "41 tokens once", "lost")
    assert rest == again(60, *[2] * 40, *[1] * 40)


@pytest.mark.parametrize(("most", "found"), [(1201, 0), (1200, 1201)])
def test_a_lack_is_made_up_by_any_number_of_pieces_that_are_tried(monkeypatch, most, found):
    """Of 1,200 pieces, none and then each but the last are tried before all are there."""
    monkeypatch.setattr(module, "MOST_TRIED", most)
    text = list(range(1200))
    assert len(told([text, [*text, 1200]], {1: aside(1201, *((at, at + 1) for at in text))})) == found


@pytest.mark.parametrize(
    ("length", "pieces", "parts"),
    [
        (6, [(0, 6, 0, 0)], {}),
        (6, [(0, 3, 0, 3), (3, 6, 0, 0)], {0: [(3, 6), (0, 3)]}),
        (6, [(2, 4, 0, 3)], {0: [(3, 5)]}),
        (2, [(0, 2, 0, 0)], {}),
        (2, [(0, 6, 0, 0)], {0: [(0, 6)]}),
        (2, [(1, 3, 0, 4)], {0: [(4, 6)]}),  # as many tokens as are planned, but others
    ],
)
def test_what_is_not_a_whole_sample_is_a_piece(length, pieces, parts):
    coverage = covered([SIX], {}, [length])
    coverage.add(a_row(SIX, *pieces))
    assert coverage.parts == parts
    assert coverage.remnants == {}


def test_foreign_tokens_are_set_aside_whatever_their_number():
    # Of the row 7 1 2 8 9, two tokens are the sample, those around it are of none.
    coverage = covered([[1, 2]], {})
    coverage.add(a_row([7, 1, 2, 8, 9], (0, 1, UNKNOWN, 0), (1, 3, 0, 0), (3, 5, UNKNOWN, 0)))
    assert [(witness.id, witness.position, witness.found) for witness in judged(coverage, [1])] == [
        ("row 0", 0, "1 tokens that no sample has"),
        ("row 0", 3, "2 tokens that no sample has"),
    ]


@pytest.mark.parametrize(("ids", "found"), [([1, 2], []), ([2**32 + 1, 2**32 + 2], ["a", "row 0"])])
def test_foreign_tokens_make_up_a_lack_where_they_are_the_same(ids, found):
    coverage = covered([[1, 2]], {})
    coverage.add(a_row(ids, (0, 2, UNKNOWN, 0)))
    assert [witness.id for witness in judged(coverage)] == found


def test_foreign_tokens_where_there_is_no_sample():
    coverage = covered([], {})
    coverage.add(a_row([7, 8], (0, 2, UNKNOWN, 0)))
    assert [witness.found for witness in judged(coverage)] == ["2 tokens that no sample has"]


def test_what_the_plan_cuts_must_be_cut():
    assert told([SIX], {0: [(0, 2)]}, lengths=[2]) == []
    assert told([SIX], {0: [(0, 6)]}, lengths=[2]) == [
        ("a", "2 tokens once", "not cut, 4 tokens beyond the window")
    ]
    assert told([SIX], {0: [(0, 6)]}, lengths=[5]) == [
        ("a", "5 tokens once", "not cut, 1 tokens beyond the window")
    ]


def test_rejected_samples():
    assert told([SIX], {}, lengths=[0], fed=[False]) == []
    assert told([SIX], {}, lengths=[0]) == [("a", "to be counted", "dropped without a count")]
    assert told([SIX], {0: [(0, 1), (3, 5)]}, lengths=[0], fed=[False]) == [
        ("a", "no token", "3 tokens in a batch")
    ]


def test_a_sample_that_was_not_fed_is_not_missed_but_seen():
    assert told([SIX], {}, fed=[False]) == []
    assert told([SIX], {}, delivered=[2], fed=[False]) == [("a", "6 tokens once", "2 times")]
    assert told([SIX], {0: [(0, 5)]}, fed=[False]) == [("a", "6 tokens once", "cut, 1 tokens lost")]


@pytest.mark.parametrize(
    ("parts", "foreign", "others"),
    [
        ({0: [(0, 6)], 1: [(0, 6)]}, 0, 0),
        ({0: [(0, 4)], 1: [(0, 3), (3, 5)]}, 12, 0),  # cut at their ends
        ({0: [(2, 6)], 1: [(0, 6)]}, 0, 1),
        ({0: [(0, 2), (3, 6)], 1: [(1, 3)]}, 0, 2),
        ({1: [(0, 6)]}, 5, 0),  # one is lost
        ({1: [(0, 6)]}, 6, 1),  # another stands in its place
        ({1: [(1, 6)]}, 7, 2),
    ],
)
def test_samples_that_came_with_other_tokens(parts, foreign, others):
    coverage = covered([SIX, [7, 8, 9, 10, 11, 12]], parts)
    coverage.foreign = foreign
    judged(coverage)
    assert coverage.other_texts == others


def test_tokens_that_no_sample_has_are_counted():
    coverage = covered([SIX], {})
    coverage.add(a_row([1, 2, 30, 31, 32], (0, 2, 0, 0), (2, 5, UNKNOWN, 0)))
    assert coverage.foreign == 3
