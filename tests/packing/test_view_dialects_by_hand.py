"""Which dialect the segments of a batch are taken from, and what is tried where it names none."""

from __future__ import annotations

import numpy as np

from pytest_longctx.packing.batch import PackedRow, read_batch
from pytest_longctx.packing.hashing import prefix_hashes
from pytest_longctx.packing.layout import from_lengths
from pytest_longctx.packing.match import UNKNOWN, SampleIndex
from pytest_longctx.packing.view import Viewer
from pytest_longctx.testing.examples import Case

NONE = -100


def case_of(*members):
    return Case([{"input_ids": ids, "labels": [NONE, *ids[1:]]} for ids in members])


def viewer(case):
    return Viewer(case.samples, SampleIndex(case.samples, case.expected.lengths, case.capacity), 0)


class TestDialects:
    """Of several dialects the one that names nothing but samples, and most of them."""

    CASE = case_of([1, 2, 3, 4], [1, 2], [3, 4], [7, 8], [9])
    IDS = np.array([1, 2, 3, 4, 7, 8, 5])
    PREFIX = prefix_hashes(IDS)

    def named(self, *lengths, name="mine"):
        batch = read_batch({"input_ids": self.IDS[None], "labels": np.full((1, 7), NONE)}, "mine")
        return from_lengths(name, batch, [np.array(lengths, dtype=np.int64)])

    def best(self, *layouts):
        found = viewer(self.CASE)._best(self.PREFIX, list(layouts))
        return next((place for place, layout in enumerate(layouts) if layout is found), None)

    def test_tokens_that_are_named_as_samples(self):
        recognised = viewer(self.CASE)._recognised
        assert recognised(self.PREFIX, self.named(4, 2, 1)) == 6
        assert recognised(self.PREFIX, self.named(2, 2, 3)) == 4
        assert recognised(self.PREFIX, self.named(2, 3, 2)) == 2
        assert recognised(self.PREFIX, self.named(3, 1)) == 0
        assert recognised(self.PREFIX, self.named()) == 0

    def test_all_that_is_named_is_a_sample(self):
        complete = viewer(self.CASE)._complete
        for lengths in ([4], [2, 2], [4, 2]):
            assert complete(self.PREFIX, self.named(*lengths))
        for lengths in ([], [4, 2, 1], [3]):
            assert not complete(self.PREFIX, self.named(*lengths))

    def test_so_it_is_of_hundreds_of_tokens(self):
        case = case_of(range(1, 301), range(301, 501))
        ids = np.arange(1, 501)
        batch = read_batch({"input_ids": ids[None], "labels": ids[None]}, "mine")
        for lengths, complete in (([300, 200], True), ([300], True), ([300, 199], False), ([500], False)):
            layout = from_lengths("mine", batch, [np.array(lengths)])
            assert viewer(case)._complete(prefix_hashes(ids), layout) is complete

    def test_which_is_the_best(self):
        assert self.best() is None
        assert self.best(self.named(3)) == 0
        assert self.best(self.named(2, 2, 3), self.named(4, 2, 1)) == 1
        assert self.best(self.named(4, 2, 1), self.named(2, 2)) == 1  # nothing but samples
        assert self.best(self.named(2, 2), self.named(4, 2)) == 1
        assert self.best(self.named(4), self.named(2, 2)) == 0
        assert self.best(self.named(), self.named(4, 3)) == 1  # names nothing

    def test_a_dialect_of_nothing_but_samples_is_believed_whatever_the_packer_says(self):
        ids = self.IDS[None, :6]
        labels, mask = np.full((1, 6), NONE), np.array([[1, 1, 1, 1, 0, 0]])
        rows = [PackedRow(ids[0], labels[0], np.array([2, 2, 2]))]
        for named, samples in (({"attention_mask": mask}, [0, 3]), ({}, [1, 2, 3])):
            batch = read_batch({"input_ids": ids, "labels": labels, **named}, "mine")
            found = viewer(self.CASE).view(batch, rows, 0)
            assert found.pieces.sample.tolist() == samples


def shuffled(rows, packed=None, case=None):
    """What is found in rows that name nothing and hold samples with their tokens in another order."""
    ids = np.array(rows)
    batch = read_batch({"input_ids": ids, "labels": np.full(ids.shape, NONE)}, "mine")
    given = packed and [PackedRow(*row, lengths) for *row, lengths in zip(ids, ids, packed, strict=True)]
    found = viewer(case).view(batch, given, 0).pieces
    assert found.shuffled.tolist() == (found.sample != UNKNOWN).tolist()
    return [found.start.tolist(), found.sample.tolist()]


def test_where_nothing_is_named_each_row_may_be_one_segment():
    case = case_of([1, 2, 3, 4], [5, 6, 7, 8])
    assert shuffled([[4, 2, 3, 1], [5, 7, 6, 8]], case=case) == [[0, 4], [0, 1]]


def test_what_the_packer_says_comes_before_that():
    case = case_of([1, 2], [3, 4])
    assert shuffled([[4, 3, 2, 1]], [np.array([2, 2])], case=case) == [[0, 2], [1, 0]]
    assert shuffled([[4, 3, 2, 1]], [None], case=case_of([1, 2, 3, 4])) == [[0], [0]]
