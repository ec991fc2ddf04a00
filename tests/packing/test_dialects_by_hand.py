"""Odd ways of naming segments, each read as its author meant it, or told as a fault."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.batch import read_batch
from pytest_longctx.packing.layout import Layout, layouts


def read(rows=1, width=6, **fields):
    """The dialects of a batch: name, segments as (row, start, end), faults."""
    ids = np.ones((rows, width), np.int64)
    batch = read_batch({"input_ids": ids, "labels": ids, **fields}, "mine")
    return [
        (
            layout.dialect,
            list(zip(layout.row.tolist(), layout.start.tolist(), layout.end.tolist(), strict=True)),
            tuple(fault.text for fault in layout.faults),
        )
        for layout in layouts(batch)
    ]


def test_starts_and_ends_in_the_flattened_batch():
    row, start, end = np.array([0, 1, 2, 2]), np.array([0, 1, 0, 3]), np.array([4, 3, 3, 4])
    starts, ends = Layout("seq_idx", 3, 4, row, start, end).flat
    assert (starts.tolist(), ends.tolist()) == ([0, 5, 8, 11], [4, 7, 11, 12])


class TestBorders:
    def test_beyond_the_last_token(self):
        found = read(cu_seq_lens_q=[0, 3, 8])
        assert found == [("cu_seq_lens", [(0, 0, 3), (0, 3, 6)], ("ends at 8, expected 6 tokens",))]

    def test_before_the_first_token_and_backwards(self):
        faults = ("starts at -2, expected 0", "does not grow strictly")
        assert read(cu_seq_lens_q=[-2, 4, 2, 6]) == [
            ("cu_seq_lens", [(0, 0, 2), (0, 2, 4), (0, 4, 6)], faults)
        ]

    def test_of_the_keys_alone(self):
        assert read(cu_seq_lens_k=[[0, 6]]) == [("cu_seq_lens", [(0, 0, 6)], ())]

    def test_one_entry_or_none(self):
        assert read(cu_seq_lens_q=[6])[0][2] == ("has 1 entries, expected a start and an end at least",)
        empty = np.zeros(0, np.int64)
        assert read(cu_seq_lens_q=empty)[0][2] == ("has 0 entries, expected a start and an end at least",)


class TestLengths:
    def test_one_number_a_row(self):
        assert read(rows=2, seq_lengths=[6, 4]) == [("seq_lengths", [(0, 0, 6), (1, 0, 4)], ())]

    def test_rows_of_lengths_in_one_flattened_row(self):
        assert read(seq_lengths=[[2], [1, 3]]) == [("seq_lengths", [(0, 0, 2), (0, 2, 3), (0, 3, 6)], ())]
        assert read(seq_lengths=[]) == [("seq_lengths", [], ())]

    def test_zeros_name_nothing(self):
        assert read(rows=2, seq_lengths=[[0, 2, 0, 1], [0, 0, 0, 6]]) == [
            ("seq_lengths", [(0, 0, 2), (0, 2, 3), (1, 0, 6)], ())
        ]

    def test_more_or_fewer_rows_than_the_batch_has(self):
        assert read(rows=2, seq_lengths=[[6]])[0][1:] == ([(0, 0, 6)], ("has 1 rows, the batch 2",))
        found = read(rows=2, seq_lengths=[[6], [6], [6]])
        assert found[0][1:] == ([(0, 0, 6), (1, 0, 6)], ("has 3 rows, the batch 2",))

    def test_more_tokens_than_a_row_has(self):
        faults = ("lengths add up to 9, more than 6 tokens",)
        found = read(rows=2, seq_lengths=[[3, 3], [4, 5]])
        assert found == [("seq_lengths", [(0, 0, 3), (0, 3, 6), (1, 0, 4), (1, 4, 6)], faults)]


class TestPlanes:
    def test_positions_of_the_first_plane(self):
        planes = [[[0, 1, 0, 1, 2, 3]], [[0, 1, 2, 3, 4, 5]]]
        assert read(position_ids=planes) == [("position_ids", [(0, 0, 2), (0, 2, 6)], ())]

    def test_numbers_of_segments_below_zero_are_padding(self):
        found = read(rows=2, seq_idx=[[-1, 0, 0, 5, 5, -1], [0, 0, 0, 0, 0, 0]])
        assert found == [("seq_idx", [(0, 1, 3), (0, 3, 5), (1, 0, 6)], ())]


class TestMasks:
    def test_numbers_tell_segments_and_zero_padding(self):
        assert read(attention_mask=[[2, 2, 1, 0, 0, 1]]) == [
            ("segment_mask", [(0, 0, 2), (0, 2, 3), (0, 5, 6)], ())
        ]
        assert read(attention_mask=[[0, 1, 1, 0, 1, 0]]) == [("padding_mask", [(0, 1, 3), (0, 4, 5)], ())]

    @pytest.mark.parametrize("value", [2.0, 0.5])
    def test_numbers_of_any_type(self, value):
        (found,) = read(attention_mask=[[value, value, 1.0, 0.0, 0.0, 0.0]])
        segments = [(0, 0, 2), (0, 2, 3)] if value > 1 else [(0, 0, 3)]
        assert found[:2] == ("segment_mask" if value > 1 else "padding_mask", segments)

    def test_the_full_mask_among_several_names_the_segments(self):
        full, near = np.tril(np.ones((1, 1, 6, 6), bool)), np.eye(6, dtype=bool)[None, None]
        for masks in (
            {"sliding_attention": near, "full_attention": full},
            {"full_attention": full, "sliding_attention": near, "linear_attention": None},
        ):
            assert read(attention_mask=masks) == [("block_mask", [(0, 0, 6)], ())]

    def test_dense_masks_by_name_as_nested_lists(self):
        full, all_of_it = np.eye(6, dtype=bool)[None, None], np.ones((1, 6, 6))
        ((dialect, segments, (fault,)),) = read(
            attention_mask={"sliding_attention": all_of_it.tolist(), "full_attention": full.tolist()}
        )
        assert (dialect, segments) == ("block_mask", [(0, at, at + 1) for at in range(6)])
        assert fault.startswith("sliding_attention head 0: token 0 sees token 1")

    @pytest.mark.parametrize(
        "mask", [np.array([[1, 1, 1, 1, 0, 0]]), [[1, 1, 1, 1, 0, 0]], [1, 1, 1, 1, 0, 0]]
    )
    def test_padding_masks_by_name(self, mask):
        padding = ("padding_mask", [(0, 0, 4)], ())
        assert read(attention_mask={"linear_attention": mask}) == [padding]
        assert read(attention_mask={"conv": None, "linear_attention": mask, "other": mask}) == [padding]
        full = np.tri(6, dtype=bool)[None]
        both = read(attention_mask={"linear_attention": mask, "full_attention": full})
        assert both == [("block_mask", [(0, 0, 6)], ()), padding]

    def test_no_mask_by_name(self):
        assert read(attention_mask={}) == read(attention_mask={"full_attention": None}) == []

    @pytest.mark.parametrize(
        ("masks", "said"),
        [
            (
                {"a": np.ones((1, 6)), "b": np.ones((1, 5))},
                r"\['b'\] has shape \(1, 5\), expected \(1, 6\) or",
            ),
            ({"a": np.ones(())}, r"\['a'\] has shape \(\), expected \(1, 6\) or \(1, heads, 6, 6\)"),
            ({"a": np.ones((1, 1, 1, 6, 6))}, r"\['a'\] has shape \(1, 1, 1, 6, 6\), expected"),
            ({"a": object()}, r"\['a'\] holds object of object, expected an array of numbers"),
            (
                {"a": [[1] * 6], "b": [[1] * 5 + [0]]},
                " has padding masks that differ, expected the same one for",
            ),
            ({"a": [[1, 1, 1, 1, 1, np.nan]]}, r"\['a'\] holds NaN"),
        ],
    )
    def test_what_is_no_mask(self, masks, said):
        with pytest.raises(PackingError, match=f"mine: attention_mask{said}"):
            read(attention_mask=masks)

    def test_no_number(self):
        with pytest.raises(PackingError, match="mine: attention_mask holds NaN"):
            read(attention_mask=[[1.0, np.nan, 1.0, 1.0, 0.0, 0.0]])
