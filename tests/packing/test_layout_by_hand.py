"""Edges of how dialects are read: what is left out, what comes first, and where a fault lies."""

from __future__ import annotations

import numpy as np

from pytest_longctx.packing.batch import read_batch
from pytest_longctx.packing.layout import Layout, layouts


def read(rows=1, width=4, **fields):
    ids = np.ones((rows, width), np.int64)
    return layouts(read_batch({"input_ids": ids, "labels": ids, **fields}, "mine"))


def spans(layout):
    return list(zip(layout.row.tolist(), layout.start.tolist(), layout.end.tolist(), strict=True))


def test_starts_and_ends_in_rows_of_any_width():
    starts, ends = Layout("seq_idx", 2, 3, np.array([1, 1]), np.array([0, 1]), np.array([1, 3])).flat
    assert (starts.tolist(), ends.tolist()) == ([3, 4], [4, 6])


def test_lengths_beyond_the_third_row_are_at_fault_there():
    (layout,) = read(rows=3, seq_lengths=[[4], [4], [4, 1]])
    assert [tuple(fault) for fault in layout.faults] == [("lengths add up to 5, more than 4 tokens", 8)]


def test_lengths_beyond_their_row_start_no_segment_in_the_next():
    (layout,) = read(rows=2, seq_lengths=[[4, 2], [4]])
    assert spans(layout) == [(0, 0, 4), (1, 0, 4)]


def test_lengths_of_rows_that_are_not_there():
    (layout,) = read(rows=2, seq_lengths=[[4], [4], [1, 3]])
    assert spans(layout) == [(0, 0, 4), (1, 0, 4)]
    assert [fault.text for fault in layout.faults] == ["has 3 rows, the batch 2"]


def test_lengths_of_hundreds_of_rows():
    (layout,) = read(rows=300, width=1, seq_lengths=[[1]] * 300)
    assert layout.faults == ()


def test_lengths_below_one_name_nothing():
    (layout,) = read(seq_lengths=[2, -1, 0, 2])
    assert spans(layout) == [(0, 0, 2), (0, 2, 4)]


def test_a_position_that_leaps_ahead_starts_a_segment():
    (layout,) = read(position_ids=[[0, 1, 5, 6]])
    assert spans(layout) == [(0, 0, 2), (0, 2, 4)]


def test_every_number_but_zero_is_no_padding():
    (layout,) = read(attention_mask=[[-1, -1, 1, 0]])
    assert (layout.dialect, spans(layout)) == ("padding_mask", [(0, 0, 3)])
    (layout,) = read(attention_mask=[[2, 2, -1, 0]])
    assert (layout.dialect, spans(layout)) == ("segment_mask", [(0, 0, 2), (0, 2, 3)])


def test_masks_of_three_dimensions():
    mask = np.tri(4, dtype=np.bool_)[None]
    assert [layout.dialect for layout in read(attention_mask=mask)] == ["block_mask"]
    assert [layout.dialect for layout in read(attention_mask={"full_attention": mask})] == ["block_mask"]


def test_dense_masks_as_nested_lists():
    mask = np.tri(4, dtype=np.int64)
    mask[2:, :2] = 0
    for nested in (mask[None].tolist(), mask[None, None].tolist()):
        (layout,) = read(attention_mask=nested)
        assert (layout.dialect, spans(layout)) == ("block_mask", [(0, 0, 2), (0, 2, 4)])


def test_the_full_mask_names_the_segments_wherever_it_stands():
    full = np.tri(4, dtype=np.bool_)
    chunked = full.copy()
    chunked[2:, :2] = False
    masks = {"chunked_attention": chunked[None, None], "full_attention": full[None, None]}
    (layout,) = read(attention_mask=masks)
    assert (spans(layout), layout.faults) == ([(0, 0, 4)], ())
