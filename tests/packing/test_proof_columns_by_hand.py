"""Proofs on columns put down by hand, without batches, and the memory that they share."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.packing import proof
from pytest_longctx.packing.match import UNKNOWN
from pytest_longctx.packing.proof import Scratch


class TestScratch:
    @pytest.mark.parametrize(
        ("found", "at", "holds"),
        [
            ([0], [0], True),
            ([0, 1, 2, 0, 1], [0, 3], True),
            ([0, 0, 1], [0, 1], True),
            ([0, 1, 0, 0], [0, 2, 3], True),
            ([1], [0], False),
            ([1, 2, 0], [0, 2], False),
            ([0, 1, 1, 2], [0, 2], False),
            ([0, 1, 2, 3, 4], [0, 3], False),
            ([0, 1, 2, 0, 2], [0, 3], False),
            ([0, 2, 0, 1], [0, 2], False),
            ([0, 1, 0, 0, 1], [0, 2], False),
            # As many steps by 1 as there should be.
            ([0, 1, -1, 0, 1], [0, 3], False),
            ([0, -1, 0, 1], [0, 2], False),
            ([0, 1, 0, 1, -1, 0, 1], [0, 2, 5], False),
            ([0, 1, -1, 0, 0, 1], [0, 3, 4], False),
        ],
    )
    def test_counts(self, found, at, holds):
        for dtype in (np.int32, np.int64):
            segments = SimpleNamespace(at=np.array(at), inside={"position_ids": np.array(found, dtype)}.get)
            assert Scratch().counts(segments) is holds

    def test_counts_columns_of_other_types_in_turn(self):
        scratch, at = Scratch(), np.array([0])
        for dtype, second, holds in ((np.int32, 1, True), (np.int64, 2**32 + 1, False), (np.int32, 1, True)):
            found = {"position_ids": np.array([0, second], dtype)}
            assert scratch.counts(SimpleNamespace(at=at, inside=found.get)) is holds

    @pytest.mark.parametrize(
        ("found", "holds"),
        [
            ([4, 4, 5, 5, 5, 4], True),
            ([5, 4, 5, 5, 5, 4], False),
            ([4, 5, 5, 5, 5, 4], False),
            ([4, 4, 5, 6, 5, 4], False),
            ([4, 4, 4, 5, 5, 4], False),
            ([4, 4, 5, 5, 4, 4], False),
            ([4, 4, 5, 5, 5, 5], False),
            ([3, 3, 4, 4, 4, 3], False),
        ],
    )
    def test_numbered(self, found, holds):
        segments = SimpleNamespace(at=np.array([0, 2, 5]), size=np.array([2, 3, 1]))
        assert Scratch().numbered(np.array(found), segments, np.array([4, 5, 4])) is holds

    def test_a_number_of_the_row_before(self):
        """As many changes as there should be, one of them beside its place."""
        segments = SimpleNamespace(at=np.array([0, 2]), size=np.array([2, 2]))
        assert Scratch().numbered(np.array([1, 1, 0, 0]), segments, np.array([1, 0]))
        for found in ([1, 1, 1, 0], [1, 0, 0, 0]):
            assert not Scratch().numbered(np.array(found), segments, np.array([1, 0]))

    def test_neighbours_of_one_number(self):
        segments = SimpleNamespace(at=np.array([0, 2]), size=np.array([2, 3]))
        assert Scratch().numbered(np.array([0, 0, 0, 0, 0]), segments, np.array([0, 0]))
        assert not Scratch().numbered(np.array([0, 0, 0, 1, 0]), segments, np.array([0, 0]))

    def test_same(self):
        scratch, expected = Scratch(), np.array([1, 2, 3], np.int32)
        assert scratch.same(np.array([1, 2, 3]), expected) is True
        for found in ([0, 2, 3], [1, 0, 3], [1, 2, 0]):
            assert scratch.same(np.array(found), expected) is False

    @pytest.mark.parametrize("name", ["numbers", "flags", "steps"])
    def test_memory_is_used_again(self, name):
        scratch = Scratch()
        more = (np.dtype(np.int64),) if name == "steps" else ()
        three, same, two, four, again = (getattr(scratch, name)(size, *more) for size in (3, 3, 2, 4, 3))
        assert [len(one) for one in (three, same, two, four, again)] == [3, 3, 2, 4, 3]
        assert np.shares_memory(three, same)
        assert np.shares_memory(three, two)
        assert not np.shares_memory(three, four)
        assert np.shares_memory(four, again)

    def test_types(self):
        scratch = Scratch()
        assert (scratch.numbers(1).dtype, scratch.flags(1).dtype) == (np.int32, np.bool_)
        assert (scratch.numbers(0).dtype, scratch.flags(0).dtype) == (np.int32, np.bool_)
        for dtype in (np.int32, np.int64, np.int32, np.int32):
            assert scratch.steps(2, np.dtype(dtype)).dtype == dtype


@pytest.mark.parametrize(
    ("sample", "size", "holds"),
    [
        ([0, 1, 2], [3, 2, 4], True),
        ([2, 2], [4, 4], True),
        ([0, 1], [3, 1], False),
        ([0, 1], [2, 2], False),
        ([0, 1], [4, 3], False),
        ([0, UNKNOWN], [3, 4], False),
        ([UNKNOWN, 0], [4, 3], False),
    ],
)
def test_known(sample, size, holds):
    prover = SimpleNamespace(index=SimpleNamespace(lengths=np.array([3, 2, 4])))
    segments = SimpleNamespace(sample=np.array(sample), size=np.array(size))
    assert proof._known(prover, segments) is holds


@pytest.mark.parametrize(
    ("covered", "holds"),
    [
        (None, True),
        ([1, 1, 0, 1, 0], True),
        ([1, 0, 1, 1, 0], False),
        ([1, 1, 0, 0, 1], False),
        ([0, 1, 1, 1, 0], False),
        ([1, 1, 0, 0, 0], False),
        ([1, 1, 1, 1, 0], False),
    ],
)
def test_leads(covered, holds):
    flags = None if covered is None else np.array(covered, np.bool_)
    segments = SimpleNamespace(covered=flags, rows=np.array([0, 3]))
    assert proof._leads(segments, np.array([2, 4])) is holds


def test_rows_without_padding_lead():
    segments = SimpleNamespace(covered=np.ones(4, np.bool_), rows=np.array([0, 2]))
    assert proof._leads(segments, np.array([2, 4]))


@pytest.mark.parametrize(
    ("sizes", "stride", "holds"),
    [
        ([2**31], None, True),
        ([2**31 + 1], None, False),
        ([2**31], 1, True),
        ([2**30], 2, True),
        ([2**30], 3, False),
        ([2**30 + 1], 2, False),
        ([5, 2**30, 7], 2, True),
        ([5, 2**30 + 1, 7], 2, False),
    ],
)
def test_offsets(sizes, stride, holds):
    prover = SimpleNamespace(expected=SimpleNamespace(row_stride=stride))
    members = [SimpleNamespace(size=size) for size in sizes]
    assert proof._offsets(prover, SimpleNamespace(block=SimpleNamespace(members=members))) is holds


def supervised(targets, edges, spans, rows):
    """Whether each packed row has a target; edges: where packed rows start, rows: where batch rows do."""
    start, end = np.array(spans).T
    segments = SimpleNamespace(
        targets=np.array(targets, np.bool_),
        rows=np.array(rows),
        packed_edges=np.array(edges),
        block=SimpleNamespace(size=len(targets)),
        start=start,
        end=end,
        size=end - start,
    )
    return proof._supervised(None, segments)


@pytest.mark.parametrize(
    ("targets", "edges", "spans", "rows", "holds"),
    [
        # One packed row.
        ([0, 0, 1], [0], [(0, 3)], [0], True),
        ([0, 1, 0], [0], [(0, 3)], [0], True),
        ([0, 0, 0], [0], [(0, 3)], [0], False),
        ([1, 0, 0], [0], [(0, 3)], [0], False),
        ([1, 1, 0], [0], [(0, 3)], [0], True),
        ([1], [0], [(0, 1)], [0], False),
        ([0, 1], [0], [(0, 1), (1, 2)], [0], True),
        ([1, 0], [0], [(0, 1), (1, 2)], [0], False),
        # Two, each a row of the batch.
        ([0, 1, 0, 1], [0, 2], [(0, 2), (2, 4)], [0, 2], True),
        ([0, 1, 1, 0], [0, 2], [(0, 2), (2, 4)], [0, 2], False),
        ([1, 0, 0, 1], [0, 2], [(0, 2), (2, 4)], [0, 2], False),
        ([0, 1, 1], [0, 2], [(0, 2), (2, 3)], [0, 2], False),
        ([1, 0, 1], [0, 1], [(0, 1), (1, 3)], [0, 1], False),
        # Two, flattened into one row: a packed row's first token is none of the batch row.
        ([0, 1, 1], [0, 2], [(0, 2), (2, 3)], [0], True),
        ([0, 1, 1, 0], [0, 2], [(0, 2), (2, 4)], [0], True),
        ([0, 1, 0, 0], [0, 2], [(0, 2), (2, 4)], [0], False),
        # A segment runs over the border between two packed rows.
        ([0, 0, 0, 1], [0, 2], [(0, 4)], [0], False),
        ([0, 1, 0, 0], [0, 2], [(0, 4)], [0], False),
        ([0, 1, 0, 1], [0, 2], [(0, 4)], [0], True),
        # The second packed row came with no token at all.
        ([0, 0, 0, 1], [0, 4], [(0, 4)], [0], False),
        # Padding behind the target.
        ([0, 1, 0, 0], [0], [(0, 2)], [0], True),
        # The last segment lies in front of the last packed row, which is all padding.
        ([0, 1, 0, 0], [0, 2], [(0, 2)], [0, 2], False),
    ],
)
def test_supervised(targets, edges, spans, rows, holds):
    assert supervised(targets, edges, spans, rows) is holds
