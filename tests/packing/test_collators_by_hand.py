"""The batches of the shipped collators, number by number."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing import mask
from pytest_longctx.packing.collators import block_mask, build_collator, padded, segment_lengths, split

LONG = {"input_ids": [5, 6, 7, 8, 9], "labels": [5, 6, 7, 8, 9], "seq_lengths": [3, 2]}
SHORT = {"input_ids": [3, 4], "labels": [-100, 4]}


def whole(batch):
    return {name: column.tolist() for name, column in batch.items()}


def test_padded_rows():
    assert whole(padded([LONG, SHORT], 1)) == {
        "input_ids": [[5, 6, 7, 8, 9], [3, 4, 1, 1, 1]],
        "labels": [[-100, 6, 7, -100, 9], [-100, 4, -100, -100, -100]],
        "position_ids": [[0, 1, 2, 0, 1], [0, 1, 0, 0, 0]],
        "attention_mask": [[1, 1, 1, 2, 2], [1, 1, 0, 0, 0]],
    }
    assert padded([SHORT, LONG])["input_ids"].tolist() == [[3, 4, 0, 0, 0], [5, 6, 7, 8, 9]]


@pytest.mark.parametrize("block", [1, 2, 1024])
def test_rows_with_a_dense_mask(monkeypatch, block):
    monkeypatch.setattr("pytest_longctx.packing.collators.BLOCK", block)
    batch = block_mask([LONG, SHORT], 1)
    dense = batch.pop("attention_mask")
    rest = padded([LONG, SHORT], 1)
    rest.pop("attention_mask")
    assert whole(batch) == whole(rest)
    assert dense.dtype == np.bool_
    assert dense.astype(int).tolist() == [
        [
            [
                [1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0],
                [1, 1, 1, 0, 0],
                [0, 0, 0, 1, 0],
                [0, 0, 0, 1, 1],
            ]
        ],
        [
            [
                [1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0],
                [0, 0, 0, 0, 0],
                [0, 0, 0, 0, 0],
                [0, 0, 0, 0, 0],
            ]
        ],
    ]


def test_the_triangle_is_not_written_to():
    block_mask([LONG])
    assert mask.triangle(3).astype(int).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_the_samples_of_a_row():
    assert [whole_lists(part) for part in split(LONG)] == [
        {"input_ids": [5, 6, 7], "labels": [5, 6, 7]},
        {"input_ids": [8, 9], "labels": [8, 9]},
    ]
    assert [whole_lists(part) for part in split(SHORT)] == [{"input_ids": [3, 4], "labels": [-100, 4]}]


def whole_lists(part):
    return {name: np.asarray(column).tolist() for name, column in part.items()}


def test_a_row_without_lengths_is_one_segment():
    assert segment_lengths(SHORT) == [2]
    assert segment_lengths(LONG) == [3, 2]


def test_settings_of_the_contract():
    assert build_collator("padded", {}, 7)([SHORT, LONG])["input_ids"][0].tolist() == [3, 4, 7, 7, 7]
    assert build_collator("padded", {"pad_token_id": 8}, 7)([SHORT, LONG])["input_ids"][0, 2] == 8


def test_settings_that_a_collator_does_not_take():
    pytest.importorskip("trl", reason="trl is not installed")
    with pytest.raises(
        PackingError, match=r"^packing\.collator: trl_padding_free does not take \{'typo': 1\}"
    ):
        build_collator("trl_padding_free", {"typo": 1}, 0)
