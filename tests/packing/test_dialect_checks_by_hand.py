"""What is told of dialects that name other segments than there are: views of a few tokens, put by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.packing.batch import Fault, read_batch
from pytest_longctx.packing.dialects import (
    _hidden,
    _misnamed,
    cumulative_boundaries,
    mask_agrees,
    padding_segment,
    sequence_indices,
)
from pytest_longctx.packing.layout import Layout, layouts
from pytest_longctx.packing.match import UNKNOWN, Pieces
from pytest_longctx.packing.view import View

SAMPLES = SimpleNamespace(ledger=SimpleNamespace(ids=["a", "b", "c"]))
# Two rows of 5: a and b; c and one token of padding.
TRUE = ((0, 3, 0), (3, 5, 1), (5, 9, 2))


def view_of(pieces=TRUE, rows=2, width=5, labels=None, shuffled=(), **fields):
    """A view whose packed rows, from number 7 on, are its batch rows."""
    fields = {name: value for name, value in fields.items() if value is not None}
    labels = np.full((rows, width), -100) if labels is None else np.array(labels)
    batch = read_batch({"input_ids": np.ones((rows, width), np.int64), "labels": labels, **fields}, "mine")
    start, end, sample = np.array(pieces, np.int64).reshape(-1, 3).T
    offset = np.zeros_like(start)
    found = Pieces(start, end, sample, offset, np.isin(np.arange(len(start)), shuffled))
    return View(batch, SAMPLES, found, layouts(batch), np.arange(rows) * width, 7)


def named(*segments, dialect="seq_idx", faults=(), width=5):
    """A layout of these segments, (start, end) in the flattened batch, none of them across rows."""
    start, end = np.array(segments, np.int64).reshape(-1, 2).T
    row = start // width
    return Layout(dialect, 2, width, row, start - row * width, end - row * width, faults=faults)


def told(witnesses):
    return [(w.id, w.row, w.segment, w.position, w.expected, w.found) for w in witnesses]


class TestMisnamed:
    def test_nothing_where_all_segments_are_named(self):
        assert told(_misnamed(view_of(), named((0, 3), (3, 5), (5, 9)))) == []
        assert told(_misnamed(view_of(), named((0, 3), (3, 5), (5, 9), (9, 10)))) == []

    def test_its_own_faults(self):
        layout = named((0, 3), (3, 5), (5, 9), dialect="cu_seq_lens", faults=(Fault("one"), Fault("two", 9)))
        found = [(w.id, w.row, w.expected, w.found) for w in _misnamed(view_of(), layout)]
        assert found == [("cu_seq_lens", 7, None, "one"), ("cu_seq_lens", 8, None, "two")]

    @pytest.mark.parametrize(
        ("segments", "expected"),
        [
            # Joined: the first is too long, the second is none.
            ([(0, 5), (5, 9)], [("a", 7, 0, 0, "0–3", "0–5"), ("b", 7, 1, 3, "3–5", "0–5")]),
            # Cut, at the start and at the end of a sample.
            ([(0, 3), (3, 5), (5, 6), (6, 9)], [("c", 8, 0, 0, "5–9", "5–6")]),
            ([(0, 3), (3, 5), (5, 8), (8, 9)], [("c", 8, 0, 0, "5–9", "5–8")]),
            # Moved by one token.
            ([(0, 2), (2, 5), (5, 9)], [("a", 7, 0, 0, "0–3", "0–2"), ("b", 7, 1, 3, "3–5", "2–5")]),
            ([(0, 4), (4, 5), (5, 9)], [("a", 7, 0, 0, "0–3", "0–4"), ("b", 7, 1, 3, "3–5", "0–4")]),
            # Left out: one ends where another starts.
            ([(0, 3), (5, 9)], [("b", 7, 1, 3, "3–5", "no segment")]),
            ([(3, 5), (5, 9)], [("a", 7, 0, 0, "0–3", "no segment")]),
            ([(0, 3), (3, 5)], [("c", 8, 0, 0, "5–9", "no segment")]),
            ([(0, 3), (3, 5), (6, 9)], [("c", 8, 0, 0, "5–9", "no segment")]),
            # Padding behind the sample is left aside, another sample's tokens are not.
            ([(0, 3), (3, 5), (5, 10)], []),
            ([(0, 3)], [("b", 7, 1, 3, "3–5", "no segment"), ("c", 8, 0, 0, "5–9", "no segment")]),
        ],
    )
    def test_others_than_they_are(self, segments, expected):
        found = list(_misnamed(view_of(), named(*segments)))
        assert told(found) == expected
        assert {w.note for w in found} <= {"as seq_idx has it"}

    def test_none_at_all(self):
        assert [found for *_, found in told(_misnamed(view_of(), named()))] == ["no segment"] * 3

    def test_a_sample_of_one_token(self):
        view = view_of(((0, 1, 0), (4, 5, 1), (5, 9, 2)))
        assert told(_misnamed(view, named((4, 5), (5, 9)))) == [("a", 7, 0, 0, "0–1", "no segment")]
        # The end is the same, the start is another.
        view = view_of(((0, 3, 0), (4, 5, 1)))
        assert told(_misnamed(view, named((0, 3), (3, 5)))) == [("b", 7, 1, 4, "4–5", "3–5")]

    def test_tokens_that_nobody_knows_are_left_aside(self):
        view = view_of(((0, 3, 0), (3, 5, UNKNOWN), (5, 9, 2)))
        assert told(_misnamed(view, named((0, 3), (4, 5), (5, 9)))) == []
        # A segment that takes them in is told.
        assert told(_misnamed(view, named((0, 5), (5, 9)))) == [("a", 7, 0, 0, "0–3", "0–5")]

    def test_a_sample_in_another_order_has_borders_as_well(self):
        view = view_of(shuffled=[2])
        assert told(_misnamed(view, named((0, 3), (3, 5), (5, 7)))) == [("c", 8, 0, 0, "5–9", "5–7")]

    def test_padding_between_samples(self):
        view = view_of(((0, 2, 0), (4, 5, 1), (5, 9, 2)))
        assert told(_misnamed(view, named((0, 4), (4, 5), (5, 9)))) == []
        assert told(_misnamed(view, named((0, 4), (4, 5), (5, 7)))) == [("c", 8, 0, 0, "5–9", "5–7")]
        found = told(_misnamed(view, named((0, 5), (5, 9))))
        assert found == [("a", 7, 0, 0, "0–2", "0–5"), ("b", 7, 1, 4, "4–5", "0–5")]


class TestBorders:
    def test_only_the_borders_are_read(self):
        view = view_of(seq_idx=[[0] * 5] * 2, cu_seq_lens_q=[0, 3, 5, 9, 10], cu_seq_lens_k=[0, 3, 5, 9, 10])
        assert told(cumulative_boundaries(view)) == []
        view = view_of(seq_idx=[[0, 0, 0, 1, 1], [0] * 5], cu_seq_lens_q=[0, 5, 10])
        expected = [("a", 7, 0, 0, "0–3", "0–5"), ("b", 7, 1, 3, "3–5", "0–5")]
        assert told(cumulative_boundaries(view)) == expected
        others = [named(dialect=dialect) for dialect in ("block_mask", "seq_lengths")]
        assert told(cumulative_boundaries(replace(view, layouts=others))) == []

    @pytest.mark.parametrize(
        ("queries", "keys", "differ"),
        [
            ([0, 3, 5, 9, 10], [0, 3, 5, 9, 10], False),
            ([0, 3, 5, 9, 10], [0, 3, 5, 10], True),
            ([0, 3, 5, 9, 10], [0, 3, 5, 8, 10], True),
            ([0, 3, 5, 9, 10], None, False),
            (None, [0, 3, 5, 9, 10], False),
            (None, None, False),
        ],
    )
    def test_of_queries_and_keys(self, queries, keys, differ):
        found = cumulative_boundaries(view_of(cu_seq_lens_q=queries, cu_seq_lens_k=keys))
        expected = [("cu_seq_lens_k", 7, None, None, "as cu_seq_lens_q", "other borders")]
        assert told(found) == expected * differ


class TestIndices:
    @pytest.mark.parametrize(
        ("index", "expected"),
        [
            (None, []),
            ([[0, 0, 0, 1, 1], [0, 0, 0, 0, 5]], []),
            # Within a sample: the first token that has another number, once for each sample.
            ([[0, 1, 1, 1, 1], [0, 0, 0, 0, 0]], [("a", 7, 0, 1, 0, 1)]),
            ([[0, 0, 3, 1, 1], [0, 4, 0, 4, 0]], [("a", 7, 0, 2, 0, 3), ("c", 8, 0, 1, 0, 4)]),
            ([[0, 0, 0, 1, 0], [0, 0, 0, 2, 2]], [("b", 7, 1, 4, 1, 0), ("c", 8, 0, 3, 0, 2)]),
            # From 0 in each row, and one by one.
            ([[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], [("b", 7, 1, 3, 1, 0)]),
            ([[0, 0, 0, 2, 2], [0, 0, 0, 0, 0]], [("b", 7, 1, 3, 1, 2)]),
            ([[0, 0, 0, 1, 1], [2, 2, 2, 2, 2]], [("c", 8, 0, 0, 0, 2)]),
            ([[0, 0, 0, 1, 1], [1, 1, 1, 1, 1]], [("c", 8, 0, 0, 0, 1)]),
            # The second follows the first, though that one is wrong.
            ([[4, 4, 4, 5, 5], [0, 0, 0, 0, 0]], [("a", 7, 0, 0, 0, 4)]),
            ([[-1, -1, -1, 0, 0], [0, 0, 0, 0, 0]], [("a", 7, 0, 0, 0, -1)]),
        ],
    )
    def test_of_a_rows_segments(self, index, expected):
        seq_idx = None if index is None else np.array(index, np.int32)
        assert told(sequence_indices(view_of(seq_idx=seq_idx))) == expected

    def test_of_the_first_of_several_planes(self):
        planes = [[[0, 0, 0, 1, 1], [0] * 5], [[8] * 5, [9] * 5]]
        assert told(sequence_indices(view_of(seq_idx=planes))) == []

    def test_unsigned_numbers_do_not_wrap_around(self):
        index = np.array([[255, 255, 255, 0, 0], [0, 0, 0, 0, 0]], np.uint8)
        found = told(sequence_indices(view_of(seq_idx=index)))
        assert found == [("a", 7, 0, 0, 0, 255), ("b", 7, 1, 3, 256, 0)]

    def test_behind_what_nobody_knows_any_number_will_do(self):
        pieces = ((0, 2, 0), (2, 3, UNKNOWN), (3, 4, 1), (4, 5, 1), (5, 9, 2))
        index = [[0, 0, 9, 4, 5], [0, 0, 0, 0, 0]]
        assert told(sequence_indices(view_of(pieces, seq_idx=index))) == []
        index = [[0, 0, 9, 4, 6], [0, 0, 0, 0, 0]]
        assert told(sequence_indices(view_of(pieces, seq_idx=index))) == [("b", 7, 3, 4, 5, 6)]

    def test_a_row_that_starts_behind_what_nobody_knows_is_counted_from_0(self):
        view = view_of(((0, 3, 0), (3, 5, UNKNOWN), (5, 9, 2)), seq_idx=[[0, 0, 0, 1, 1], [3, 3, 3, 3, 3]])
        assert told(sequence_indices(view)) == [("c", 8, 0, 0, 0, 3)]

    def test_a_sample_in_another_order_is_not_looked_into(self):
        view = view_of(shuffled=[0], seq_idx=[[0, 7, 7, 1, 1], [0, 0, 0, 0, 0]])
        assert told(sequence_indices(view)) == []

    def test_the_first_row_is_padding(self):
        view = view_of(((5, 9, 2), (9, 10, 1)), seq_idx=[[0] * 5, [0, 0, 0, 0, 1]])
        assert told(sequence_indices(view)) == []
        view = view_of(((5, 9, 2), (9, 10, 1)), seq_idx=[[0] * 5, [1, 1, 1, 1, 2]])
        assert told(sequence_indices(view)) == [("c", 8, 0, 0, 0, 1)]


class TestMasks:
    @pytest.mark.parametrize(
        ("segments", "expected"),
        [
            ([(0, 5), (5, 9)], []),
            ([(0, 3), (3, 5), (5, 9)], []),
            ([(0, 5), (5, 10)], []),  # padding taken for tokens is padding_segment's offence
            ([(0, 1), (3, 5), (5, 9)], [("a", 7, 0, 1)]),
            ([(1, 5), (5, 9)], [("a", 7, 0, 0)]),
            ([(0, 4), (5, 8)], [("b", 7, 1, 4), ("c", 8, 0, 3)]),
            ([(1, 2), (3, 5), (5, 9)], [("a", 7, 0, 0), ("a", 7, 0, 2)]),
            ([], [("a", 7, 0, 0)]),
        ],
    )
    def test_hidden_tokens(self, segments, expected):
        found = told(_hidden(view_of(), named(*segments)))
        assert found == [(*place, "attended", "masked as padding") for place in expected]

    def test_padding_may_be_hidden(self):
        assert told(_hidden(view_of(((1, 3, 0), (5, 9, 2))), named((1, 3), (5, 9)))) == []

    def test_hidden_tokens_of_an_odd_number(self):
        view = view_of(((0, 3, 0), (3, 5, 1)), rows=1)
        assert told(_hidden(view, named((0, 3)))) == [("b", 7, 1, 3, "attended", "masked as padding")]
        assert told(_hidden(view, named((0, 5)))) == []

    def test_each_dialect_is_asked(self):
        # The padding mask hides b's last token, and the positions join a and b.
        mask, positions = [[1, 1, 1, 1, 0], [1, 1, 1, 1, 0]], [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
        found = list(mask_agrees(view_of(attention_mask=mask, position_ids=positions)))
        assert told(found) == [
            ("b", 7, 1, 4, "attended", "masked as padding"),
            ("a", 7, 0, 0, "0–3", "0–5"),
            ("b", 7, 1, 3, "3–5", "0–5"),
        ]
        assert [w.note for w in found] == ["", "as position_ids has it", "as position_ids has it"]


class TestPadding:
    @pytest.mark.parametrize(
        ("pieces", "labels", "expected"),
        [
            (TRUE, [[1, 2, 3, 4, 5], [6, 7, 8, 9, -100]], []),
            (TRUE, [[-100] * 5, [-100, -100, -100, -100, 0]], [(8, 4, 0)]),
            (TRUE, [[-100] * 5, [-100, -100, -100, -100, -101]], [(8, 4, -101)]),
            # Of neighbours the first.
            (((0, 3, 0), (5, 9, 2)), [[-100, 1, 1, 8, 9], [1] * 5], [(7, 3, 8), (8, 4, 1)]),
            (((0, 2, 0), (6, 9, 2)), [[-100, 1, 8, -100, 9], [1] * 5], [(7, 2, 8), (7, 4, 9), (8, 4, 1)]),
            (((1, 5, 0), (5, 9, 2)), [[6, 1, 1, 1, 1], [1, 1, 1, 1, -100]], [(7, 0, 6)]),
        ],
    )
    def test_with_labels(self, pieces, labels, expected):
        found = list(padding_segment(view_of(pieces, labels=labels)))
        assert [(w.row, w.position, w.found) for w in found] == expected
        assert {(w.expected, w.note) for w in found} <= {(-100, "padding with a label")}

    def test_none_at_all(self):
        view = view_of(((0, 5, 0), (5, 10, 2)), labels=[[1] * 5] * 2, cu_seq_lens_q=[0, 10])
        assert told(padding_segment(view)) == []

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            # A segment of padding alone, in a dialect that must put it somewhere, and in one that need not.
            ({"cu_seq_lens_q": [0, 3, 5, 9, 10]}, []),
            ({"seq_idx": [[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]]}, []),
            ({"seq_lengths": [[3, 2], [4, 1]]}, [(9, 1, "seq_lengths")]),
            ({"attention_mask": [[1, 1, 1, 2, 2], [3, 3, 3, 3, 1]]}, [(9, 1, "segment_mask")]),
            ({"attention_mask": [[1] * 5, [1] * 5]}, [(5, 1, "padding_mask")]),
            # In a sample's segment.
            ({"cu_seq_lens_q": [0, 3, 5, 10]}, [(5, 1, "cu_seq_lens")]),
            ({"seq_idx": [[0, 0, 0, 1, 1], [0] * 5]}, [(5, 1, "seq_idx")]),
            ({"seq_lengths": [[3, 2], [5]]}, [(5, 1, "seq_lengths")]),
            # Nowhere, or behind a sample as positions count on.
            ({"seq_lengths": [[3, 2], [4]]}, []),
            ({"attention_mask": [[1] * 5, [1, 1, 1, 1, 0]]}, []),
            ({"position_ids": [[0, 1, 2, 0, 1], [0, 1, 2, 3, 4]]}, []),
            # Positions are left aside, what comes before and after them is not.
            (
                {"position_ids": [[0, 1, 2, 3, 4]] * 2, "seq_idx": [[0] * 5] * 2, "seq_lengths": [[5], [5]]},
                [(5, 1, "seq_idx"), (5, 1, "seq_lengths")],
            ),
        ],
    )
    def test_in_segments(self, fields, expected):
        view = view_of(**fields)
        found = list(padding_segment(view))
        assert told(padding_segment(replace(view, layouts=view.layouts[::-1]))) == told(found)[::-1]
        shown = [((w.row - 7) * 5 + w.position, w.found, w.note) for w in found]
        assert shown == [
            (place, f"{number} padding tokens", f"as {dialect} has it") for place, number, dialect in expected
        ]
        assert {w.expected for w in found} <= {"no padding"}

    def test_several_tokens_in_several_segments(self):
        view = view_of(((0, 2, 0), (5, 6, 2)), cu_seq_lens_q=[0, 3, 5, 8, 10])
        # 0–3 holds one, 3–5 is padding, 5–8 holds two, 8–10 is padding.
        found = [(w.row, w.position, w.found) for w in padding_segment(view)]
        assert found == [(7, 0, "1 padding tokens"), (8, 0, "2 padding tokens")]
