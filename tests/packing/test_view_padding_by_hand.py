"""What of a row is padding and what is a piece of its own, where no sample has been found for it."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing import view as module
from pytest_longctx.packing.batch import read_batch
from pytest_longctx.packing.match import UNKNOWN, Pieces, SampleIndex
from pytest_longctx.packing.view import Viewer
from pytest_longctx.testing.examples import Case

NONE = -100


def case_of(*members):
    rows = [{"input_ids": ids, "labels": [NONE, *ids[1:]]} for ids in members]
    return Case(rows, names=list("abcdef")[: len(rows)])


# Samples a, b, c of 3, 2 and 4 tokens.
CASE = case_of([10, 11, 12], [20, 21], [30, 31, 32, 33])


def viewer(pad=0, case=CASE):
    return Viewer(case.samples, SampleIndex(case.samples, case.expected.lengths, case.capacity), pad)


def seen(ids, named=None, labels=None, pad=0, case=CASE):
    """(start, end, sample, offset) of what is found in some rows; `named` numbers their segments from 1."""
    rows = np.atleast_2d(ids)
    fields = {"input_ids": rows, "labels": np.atleast_2d(labels) if labels else np.full(rows.shape, NONE)}
    if named is not None:
        fields["attention_mask"] = np.atleast_2d(named)
    found = viewer(pad, case).view(read_batch(fields, "mine"), None, 0).pieces
    columns = (found.start, found.end, found.sample, found.offset)
    return list(zip(*(column.tolist() for column in columns), strict=True))


A, B = (0, 3, 0, 0), (4, 6, 1, 0)


@pytest.mark.parametrize("label", [NONE, 7])
def test_a_gap_of_the_padding_id_is_padding_whatever_its_label(label):
    labels = [NONE, 11, 12, label, NONE, 21]
    assert seen([10, 11, 12, 0, 20, 21], [1, 1, 1, 0, 2, 2], labels) == [A, B]


@pytest.mark.parametrize("foreign", [14, 16])
def test_a_gap_of_another_id_is_a_piece_that_nobody_knows(foreign):
    labels = [NONE, 11, 12, foreign, NONE, 21]
    found = seen([10, 11, 12, foreign, 20, 21], [1, 1, 1, 0, 2, 2], labels, pad=15)
    assert found == [A, (3, 4, UNKNOWN, 0), B]


def test_a_gap_that_is_a_sample_is_that_sample():
    assert seen([10, 11, 12, 0, 20, 21], [1, 1, 1, 0, 0, 0]) == [A, B]
    assert seen([20, 21, 10, 11, 12, 0], [1, 1, 0, 0, 0, 0]) == [(0, 2, 1, 0), (2, 5, 0, 0)]


@pytest.mark.parametrize(
    ("foreign", "labels", "kept"),
    [
        ([7, 7], [NONE, NONE], False),  # padding of another id
        ([7, 7], [NONE, 7], True),
        ([7, 7], [7, NONE], True),
        ([7, 7], [NONE, -101], True),  # any label but -100
        ([7, 8], [NONE, NONE], True),
        ([7, 8], [NONE, 8], True),
    ],
)
def test_one_id_over_and_over_without_a_label_is_padding(foreign, labels, kept):
    row, own = [10, 11, 12, *foreign], [NONE, 11, 12, *labels]
    assert seen(row, [1, 1, 1, 2, 2], own) == [A, (3, 5, UNKNOWN, 0)][: 1 + kept]


@pytest.mark.parametrize(
    ("row", "start", "end"),
    [
        ([0, 0, 98, 99, 0, 0], 2, 4),
        ([98, 99, 0, 0, 0, 0], 0, 2),
        ([0, 0, 0, 0, 98, 99], 4, 6),
        ([0, 98, 0, 99, 0, 0], 1, 4),  # the padding id within is none
        ([98, 0, 0, 0, 0, 99], 0, 6),
    ],
)
def test_padding_at_the_edges_of_a_row_is_cut_from_what_nobody_knows(row, start, end):
    one = [1] * 6
    assert seen(row, one) == [(start, end, UNKNOWN, 0)]
    below = [(0, 2, 1, 0), (start + 6, end + 6, UNKNOWN, 0)]
    assert seen([[20, 21, 0, 0, 0, 0], row], [[1, 1, 0, 0, 0, 0], one]) == below


class TestPaddingIdInSamples:
    """12 is the last token of a: one of it may be the rest of a."""

    @pytest.mark.parametrize(
        ("row", "end"),
        [
            ([99, 12], 2),
            ([97, 98, 12], 3),
            ([97, 98, 99, 12], 4),
            ([99, 12, 12], 1),
            ([98, 99, 12, 12], 2),
            ([99, 12, 12, 12], 1),
        ],
    )
    def test_behind_foreign_tokens_one_is_kept(self, row, end):
        assert seen(row, pad=12) == [(0, end, UNKNOWN, 0)]

    def test_where_no_sample_has_it_none_is_kept(self):
        assert seen([99, 0]) == [(0, 1, UNKNOWN, 0)]
        assert seen([98, 99, 0]) == [(0, 2, UNKNOWN, 0)]

    @pytest.mark.parametrize(
        ("row", "named", "known"),
        [
            ([30, 31, 32, 33, 12], [1, 1, 1, 1, 2], (0, 4, 2, 0)),
            ([20, 21, 12], [1, 1, 2], (0, 2, 1, 0)),
            ([10, 11, 12, 12], [1, 1, 1, 2], (0, 3, 0, 0)),
        ],
    )
    def test_one_with_a_label_is_a_piece(self, row, named, known):
        start = len(row) - 1
        labels = [NONE] * start
        assert seen(row, named, [*labels, 12], pad=12) == [known, (start, start + 1, UNKNOWN, 0)]
        assert seen(row, named, [*labels, NONE], pad=12) == [known]

    def test_in_front_of_a_row_as_well(self):
        row, named = [12, 30, 31, 32, 33], [1, 2, 2, 2, 2]
        assert seen(row, named, [12, NONE, 31, 32, 33], pad=12) == [(0, 1, UNKNOWN, 0), (1, 5, 2, 0)]
        assert seen(row, named, [NONE, NONE, 31, 32, 33], pad=12) == [(1, 5, 2, 0)]

    def test_two_are_padding_whatever_their_labels(self):
        row, named = [30, 31, 32, 33, 12, 12], [1, 1, 1, 1, 2, 2]
        assert seen(row, named, [NONE, 31, 32, 33, 12, 12], pad=12) == [(0, 4, 2, 0)]

    @pytest.mark.parametrize("pad", [0, 15, 40])
    def test_one_that_no_sample_has_is_padding_whatever_its_label(self, pad):
        row, named = [30, 31, 32, 33, pad], [1, 1, 1, 1, 2]
        assert seen(row, named, [NONE, 31, 32, 33, pad], pad=pad) == [(0, 4, 2, 0)]

    def test_the_end_of_a_sample_counts_where_it_has_a_label(self):
        row, one = [30, 31, 32, 33, 12], [1] * 5
        assert seen(row, one, [NONE, 31, 32, 33, 12], pad=12) == [(0, 4, 2, 0), (4, 5, 0, 2)]
        assert seen(row, one, [NONE, 31, 32, 33, NONE], pad=12) == [(0, 4, 2, 0)]

    def test_a_sample_of_padding_ids_alone_is_a_sample(self):
        case = case_of([10, 11, 12], [0], [20, 21])
        assert seen([10, 11, 12, 0], [1] * 4, case=case) == [(0, 3, 0, 0), (3, 4, 1, 0)]


def test_a_sample_that_ends_with_padding_ids_keeps_them():
    case = case_of([20, 21], [40, 0, 0], [0, 50])
    assert seen([20, 21, 40, 0, 0], [1] * 5, case=case) == [(0, 2, 0, 0), (2, 5, 1, 0)]
    assert seen([0, 50, 20, 21, 7, 8], [1] * 6, case=case) == [(0, 2, 2, 0), (2, 4, 0, 0), (4, 6, UNKNOWN, 0)]


def test_one_token_of_a_sample_is_its_own_though_it_has_no_label():
    """The last one of c stands alone between b and a."""
    assert seen([20, 21, 33, 10, 11, 12], [1] * 6) == [(0, 2, 1, 0), (2, 3, 2, 3), (3, 6, 0, 0)]


@pytest.mark.parametrize(("most", "found"), [(9, [(0, 4, 2, 0), B]), (8, [(0, 6, UNKNOWN, 0)])])
def test_samples_of_too_many_tokens_are_not_searched_for_parts(monkeypatch, most, found):
    """There are 9 tokens of samples."""
    monkeypatch.setattr(module, "MOST_TOKENS", most)
    assert seen([30, 31, 32, 33, 20, 21]) == found


def test_what_is_found_takes_its_place_among_the_others():
    """c is named, though in another order; a and b behind and in front of it are not."""
    fields = {
        "input_ids": np.array([[20, 21, 30, 32, 31, 33, 10, 11, 12]]),
        "labels": np.full((1, 9), NONE),
        "attention_mask": np.array([[0, 0, 2, 2, 2, 2, 0, 0, 0]]),
    }
    found = viewer().view(read_batch(fields, "mine"), None, 0).pieces
    assert [found.start.tolist(), found.end.tolist()] == [[0, 2, 6], [2, 6, 9]]
    assert [found.sample.tolist(), found.offset.tolist()] == [[1, 2, 0], [0, 0, 0]]
    assert found.shuffled.tolist() == [False, True, False]
    assert found.known.tolist() == [True, False, True]


def test_replaced_pieces_and_those_that_stay():
    columns = ([1, 4, 6], [3, 5, 9], [2, UNKNOWN, 0], [0, 0, 1], [False, False, True])
    old = Pieces(*map(np.array, columns))
    new = module._merge(old, [(9, 10, 1, 3), (0, 1, UNKNOWN, 0)])
    assert [new.start.tolist(), new.end.tolist()] == [[0, 1, 6, 9], [1, 3, 9, 10]]
    assert [new.sample.tolist(), new.offset.tolist()] == [[UNKNOWN, 2, 0, 1], [0, 0, 1, 3]]
    assert new.shuffled.tolist() == [False, False, True, False]
    none = module._merge(old, [])
    assert [none.start.tolist(), none.shuffled.tolist()] == [[1, 6], [False, True]]
