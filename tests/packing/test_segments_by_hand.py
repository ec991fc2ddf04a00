"""What one dialect says of a block's segments, and what is asked of them: a few batches put down by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.packing.audit import Delivery
from pytest_longctx.packing.batch import PackedRow
from pytest_longctx.packing.block import Block, Member, plain
from pytest_longctx.packing.match import UNKNOWN
from pytest_longctx.packing.segments import Segments, _fill_rows, _of_edges, find_segments


def batch(rows, width, edges=None, keys=None, **columns):
    """A batch of this shape; the ids are of no interest here."""
    fields = {name: np.zeros((rows, width), np.int64) for name in ("input_ids", "labels")}
    fields |= {name: np.array(value).reshape(rows, width) for name, value in columns.items()}
    if edges is not None:
        both = {"cu_seq_lens_q": edges, "cu_seq_lens_k": edges if keys is None else keys}
        fields |= {name: np.array(value, np.int32) for name, value in both.items()}
        fields |= {"max_length_q": 9, "max_length_k": 9}
    return fields


def block_of(*batches):
    """A block; its columns are longer than what is in them."""
    block = Block.of_kind(plain(batches[0]))
    for column in block.columns.values():
        column[:99] = 1
    for one in batches:
        block.add(plain(one), Delivery(None, one), 0)
    return block


def named(*batches):
    """(start, end) of each segment, or None."""
    found = find_segments(block_of(*batches))
    return None if found is None else list(zip(found.start.tolist(), found.end.tolist(), strict=True))


def member(start, rows, width, packed=None):
    """A member of a block, made of packed rows of these lengths."""
    seen = packed and [PackedRow(np.zeros(size), np.zeros(size), None) for size in packed]
    return Member(start, (rows, width), None, Delivery(seen, None), 0)


A, B, C = member(0, 2, 5), member(10, 1, 4), member(14, 2, 3)


def segments_of(members=(A, B, C), covered=None, **columns):
    """Two batch rows of A, the last with padding behind its segment; one of B; two of C, the last padded."""
    columns = {name: np.append(value, [7, 7, 7]) for name, value in columns.items()}
    return Segments(
        block=SimpleNamespace(members=members, size=20, columns=columns),
        rows=np.array([0, 5, 10, 14, 17]),
        filled=np.array([5, 4, 4, 3, 2]),
        covered=covered,
        start=np.array([0, 3, 5, 10, 14, 15, 16, 17]),
        end=np.array([3, 5, 9, 14, 15, 16, 17, 19]),
        sample=np.array([4, 2, 9, 7, 1, 1, UNKNOWN, 5]),
    )


COVERED = np.array([place not in (9, 19) for place in range(20)])


class TestSegments:
    def test_numbers(self):
        found = segments_of()
        assert found.size.tolist() == [3, 2, 4, 4, 1, 1, 1, 2]
        assert found.first.tolist() == [0, 2, 3, 4, 7]
        assert found.number.tolist() == [0, 1, 0, 0, 0, 1, 2, 0]
        assert found.first_of_member.tolist() == [0, 3, 4]
        assert found.per_member.tolist() == [3, 1, 4]
        assert found.at.tolist() == [0, 3, 5, 9, 13, 14, 15, 16]

    def test_numbers_behind_a_row_of_one(self):
        found = Segments(None, *map(np.array, ([0, 2], [2, 5], None, [0, 2, 3, 4], [2, 3, 4, 7], [0] * 4)))
        assert (found.first.tolist(), found.number.tolist()) == ([0, 1], [0, 0, 1, 2])

    @pytest.mark.parametrize(
        ("one", "start", "end", "sample"),
        [
            (A, [0, 3, 5], [3, 5, 9], [4, 2, 9]),
            (B, [0], [4], [7]),
            (C, [0, 1, 2, 3], [1, 2, 3, 5], [1, 1, UNKNOWN, 5]),
        ],
    )
    def test_pieces_of_one_batch(self, one, start, end, sample):
        pieces = segments_of().pieces_of(one)
        assert (pieces.start.tolist(), pieces.end.tolist(), pieces.sample.tolist()) == (start, end, sample)
        assert (pieces.offset.tolist(), pieces.shuffled.tolist()) == ([0] * len(start), [False] * len(start))
        assert (pieces.offset.dtype, pieces.shuffled.dtype) == (np.int64, np.bool_)

    def test_a_column_without_its_padding(self):
        column = np.arange(100, 120)
        assert segments_of(seq_idx=column).inside("seq_idx").tolist() == list(range(100, 120))
        found = segments_of(covered=COVERED, seq_idx=column).inside("seq_idx")
        assert found.tolist() == [*range(100, 109), *range(110, 119)]

    @pytest.mark.parametrize(
        ("first", "second", "value", "holds"),
        [(0, 0, 0, True), (3, 3, 3, True), (0, 3, 3, False), (3, 0, 3, False), (4, 4, 3, False)],
    )
    def test_what_padding_has(self, first, second, value, holds):
        ids = np.full(20, 50)
        ids[[9, 19]] = first, second
        assert segments_of(covered=COVERED, input_ids=ids).pads_with("input_ids", value) is holds
        assert segments_of(input_ids=ids).pads_with("input_ids", value) is True

    def test_targets(self):
        # In A one stands in the first column, in C both rows have only that; -101 is no -100 either.
        labels = np.full(20, -100)
        labels[[0, 1, 8, 11, 12, 13, 14, 17]] = 1, 2, 3, 0, 5, -101, 9, 9
        found = segments_of(labels=labels)
        assert found.targets.tolist() == [place in (0, 1, 8, 11, 12, 13, 14, 17) for place in range(20)]
        assert [found.targets_of(one) for one in (A, B, C)] == [2, 3, 0]
        assert found.all_targets == 5

    @pytest.mark.parametrize(
        ("members", "edges"),
        [
            ([A, B, C], [0, 5, 10, 14, 17]),
            # Each packed row is a row of the batch.
            ([member(0, 2, 5, [3, 5]), member(10, 1, 4, [4])], [0, 5, 10]),
            # Several are one row of it.
            ([member(0, 1, 5, [2, 1, 2]), member(5, 1, 4, [3, 1])], [0, 2, 3, 5, 8]),
            # No packed row starts behind the end, however many tokens it was to have.
            ([member(0, 1, 5, [4, 3, 2]), member(5, 1, 4, [4, 4])], [0, 4, 5, 5, 9]),
            # Where a batch of several rows is of other rows, it is not known which.
            ([member(3, 2, 5, [2, 1, 2]), member(13, 2, 2, [9])], [3, 8, 13, 15]),
        ],
    )
    def test_where_packed_rows_start(self, members, edges):
        assert segments_of(members).packed_edges.tolist() == edges


class TestFound:
    def test_rows_alone(self):
        found = find_segments(block_of(batch(2, 3), batch(1, 4)))
        assert found.rows.tolist() == found.start.tolist() == [0, 3, 6]
        assert found.filled.tolist() == [3, 3, 4]
        assert found.end.tolist() == [3, 6, 10]
        assert found.covered is None
        assert found.sample.tolist() == [UNKNOWN] * 3

    @pytest.mark.parametrize("mask", [[1] * 6, [True] * 6, [1, 1, 2, 1, 2, 3]])
    def test_a_mask_without_padding(self, mask):
        found = find_segments(block_of(batch(2, 3, attention_mask=mask)))
        assert (found.end.tolist(), found.filled.tolist()) == ([3, 6], [3, 3])
        assert found.covered is None

    def test_a_mask_of_each_row(self):
        masks = [[1, 1, 0], [1, 2, 2]], [[2, 0, -1], [1, 0, 0]]
        found = find_segments(block_of(*(batch(2, 3, attention_mask=mask) for mask in masks)))
        assert found.filled.tolist() == [2, 3, 2, 1]
        assert (found.start.tolist(), found.end.tolist()) == ([0, 3, 6, 9], [2, 6, 8, 10])
        assert found.covered.astype(int).tolist() == [1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0, 0]
        assert found.filled.dtype == np.int64

    def test_a_mask_of_truth_values_is_counted(self):
        mask = np.ones((1, 300), np.bool_)
        mask[0, 299] = False
        found = find_segments(block_of(batch(1, 300, attention_mask=mask)))
        assert (found.filled.tolist(), found.end.tolist()) == ([299], [299])

    def test_a_row_of_padding(self):
        assert named(batch(2, 2, attention_mask=[[1, 1], [0, 0]])) is None
        assert named(batch(2, 2, attention_mask=[[0, 0], [1, 1]])) is None

    @pytest.mark.parametrize(
        ("positions", "spans"),
        [
            ([[0, 1, 2, 3], [0, 1, 2, 3]], [(0, 4), (4, 8)]),
            ([[0, 1, 0, 1], [0, 0, 0, 1]], [(0, 2), (2, 4), (4, 5), (5, 6), (6, 8)]),
            ([[0, 7, 7, 1], [0, -1, 9, 0]], [(0, 4), (4, 7), (7, 8)]),  # what follows is not looked at here
            ([[0, 1, 2, 3], [4, 5, 6, 7]], None),
            ([[0, 1, 0, 1], [2, 0, 1, 2]], None),
            ([[1, 0, 1, 2], [0, 1, 2, 3]], None),
            ([[1, 2, 3, 4], [1, 2, 3, 4]], None),
        ],
    )
    def test_positions(self, positions, spans):
        assert named(batch(2, 4, position_ids=positions)) == spans

    def test_positions_of_several_batches(self):
        found = named(batch(1, 3, position_ids=[0, 1, 0]), batch(2, 2, position_ids=[[0, 0], [0, 1]]))
        assert found == [(0, 2), (2, 3), (3, 4), (4, 5), (5, 7)]
        assert named(batch(1, 2, position_ids=[0, 1]), batch(1, 2, position_ids=[1, 0])) is None

    @pytest.mark.parametrize(
        ("positions", "mask", "spans"),
        [
            # Positions in padding name nothing, and the last segment ends before it.
            ([[0, 1, 0, 0], [0, 0, 1, 0]], [[1, 1, 1, 0], [1, 1, 1, 0]], [(0, 2), (2, 3), (4, 5), (5, 7)]),
            ([[0, 1, 2, 3], [0, 1, 0, 1]], [[1, 1, 0, 0], [1, 1, 1, 1]], [(0, 2), (4, 6), (6, 8)]),
            ([[0, 1, 2, 3], [0, 0, 0, 0]], [[1, 1, 1, 1], [1, 0, 0, 0]], [(0, 4), (4, 5)]),
            # Tokens behind padding: a segment would start where its row ends, or beyond.
            ([[0, 1, 0, 1], [0, 1, 2, 3]], [[1, 0, 1, 0], [1, 1, 1, 1]], None),
            ([[0, 1, 2, 0], [0, 1, 2, 3]], [[1, 0, 0, 1], [1, 1, 1, 1]], None),
            ([[0, 1, 2, 3], [0, 1, 2, 3]], [[0, 1, 1, 1], [1, 1, 1, 1]], None),
            ([[1, 1, 0, 0], [1, 1, 1, 0]], [[1, 1, 0, 0], [1, 1, 1, 0]], None),
        ],
    )
    def test_positions_beside_padding(self, positions, mask, spans):
        assert named(batch(2, 4, position_ids=positions, attention_mask=mask)) == spans

    @pytest.mark.parametrize(
        ("rows", "edges", "spans"),
        [
            (1, [0, 6], [(0, 6)]),
            (1, [0, 2, 5, 6], [(0, 2), (2, 5), (5, 6)]),
            (2, [0, 3, 6], [(0, 3), (3, 6)]),
            (2, [0, 1, 3, 6], [(0, 1), (1, 3), (3, 6)]),
            (2, [0, 2, 6], None),
            (1, [1, 6], None),
            (1, [0, 5], None),
            (1, [0, 7], None),
            (1, [0, 3, 3, 6], None),
            (1, [0, 4, 2, 6], None),
        ],
    )
    def test_borders(self, rows, edges, spans):
        assert named(batch(rows, 6 // rows, edges)) == spans
        # Positions are not asked then, nor is a mask of no padding.
        columns = {"position_ids": [0, 0, 0, 0, 0, 0], "attention_mask": [1, 1, 1, 1, 1, 1]}
        assert named(batch(rows, 6 // rows, edges, **columns)) == spans
        columns["attention_mask"][5] = 0
        assert named(batch(rows, 6 // rows, edges, **columns)) is None

    def test_borders_of_several_batches(self):
        found = find_segments(block_of(batch(1, 5, [0, 2, 5]), batch(2, 2, [0, 2, 4]), batch(1, 3, [0, 3])))
        assert found.start.tolist() == [0, 2, 5, 7, 9]
        assert found.end.tolist() == [2, 5, 7, 9, 12]
        assert found.rows.tolist() == [0, 5, 7, 9]
        assert (found.start.dtype, found.end.dtype) == (np.int64, np.int64)


class TestBorders:
    @pytest.mark.parametrize(
        ("edges", "keys"),
        [
            *(([0, 2, 5], [0, 3, 5]), ([0, 3, 5], [0, 2, 5]), ([0, 2, 5], [0, 5]), ([0, 5], [0, 2, 5])),
            *(([-1, 5], [-1, 5]), ([1, 5], [1, 5]), ([0, 4], [0, 4]), ([0, 6], [0, 6])),
        ],
    )
    def test_of_one_batch_that_name_nothing(self, edges, keys):
        assert _of_edges(block_of(batch(1, 5, edges, keys))) is None

    def test_of_one_batch(self):
        found = _of_edges(block_of(batch(1, 5, [0, 2, 5])))
        assert [(part.tolist(), part.dtype) for part in found] == [([0, 2], np.int64), ([2, 5], np.int64)]

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            *(([1, 5], [0, 4]), ([-1, 5], [0, 4]), ([0, 4], [0, 4]), ([0, 6], [0, 4])),
            *(([0, 5], [1, 4]), ([0, 5], [-1, 2, 4]), ([0, 5], [0, 3]), ([0, 5], [0, 2, 5])),
        ],
    )
    def test_of_two_batches_of_which_one_is_wrong(self, first, second):
        assert _of_edges(block_of(batch(1, 5, first), batch(1, 4, second))) is None

    def test_of_two_batches(self):
        found = _of_edges(block_of(batch(1, 5, [0, 2, 5]), batch(2, 2, [0, 2, 4])))
        assert [part.tolist() for part in found] == [[0, 2, 5, 7], [2, 5, 7, 9]]

    def test_of_two_batches_whose_keys_are_others(self):
        good = batch(1, 4, [0, 4])
        for edges, keys in (([0, 2, 5], [0, 3, 5]), ([0, 3, 5], [0, 2, 5]), ([0, 2, 5], [0, 5])):
            assert _of_edges(block_of(batch(1, 5, edges, keys), good)) is None
            assert _of_edges(block_of(batch(1, 4, [0, 4]), batch(1, 5, edges, keys))) is None

    def test_counts_of_each_batch_are_compared(self):
        """All borders are the same, and as many, but the keys' third is the second batch's."""
        first, second = batch(1, 5, [0, 5], [0, 5, 0]), batch(1, 4, [0, 2, 4], [2, 4])
        assert _of_edges(block_of(first, second)) is None


@pytest.mark.parametrize(
    ("rows", "start", "end", "holds"),
    [
        ([0, 3], [0, 3], [3, 5], True),
        ([0, 3], [0, 2, 3], [2, 3, 5], True),
        ([0, 3, 5], [0, 1, 3, 5, 6], [1, 3, 5, 6, 8], True),
        ([0], [1], [4], False),
        ([0], [-1, 0], [0, 4], False),
        ([0], [0, 3], [3, 3], False),
        ([0], [0, 3], [3, 2], False),
        ([0], [0, 3], [0, 4], False),
        ([0, 3], [0], [5], False),
        ([0, 3], [0, 2], [2, 5], False),
    ],
)
def test_fill_rows(rows, start, end, holds):
    assert _fill_rows(np.array(rows), np.array(start), np.array(end)) is holds
