"""Fields of a batch with one entry a token: whatever their shape, planes × rows × tokens."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.batch import read_batch, read_row


def positions(value, rows=2, width=3):
    ids = np.ones((rows, width), np.int64)
    batch = read_batch({"input_ids": ids, "labels": ids, "position_ids": value}, "mine")
    found = batch.per_token("position_ids")
    return found if found is None else found.tolist()


def test_one_row_stands_for_all():
    assert positions([4, 5, 6]) == [[[4, 5, 6], [4, 5, 6]]]
    assert positions([[4, 5, 6]]) == [[[4, 5, 6], [4, 5, 6]]]
    assert positions([4, 5], width=2) == [[[4, 5], [4, 5]]]
    assert positions([[4, 5]], width=2) == [[[4, 5], [4, 5]]]


def test_each_row_has_its_own():
    assert positions([[4, 5, 6], [7, 8, 9]]) == [[[4, 5, 6], [7, 8, 9]]]
    assert positions([[4], [5], [6]], rows=3, width=1) == [[[4], [5], [6]]]


def test_planes():
    planes = np.arange(24).reshape(4, 2, 3)
    assert positions(planes) == planes.tolist()
    assert positions(planes[:, :1]) == np.repeat(planes[:, :1], 2, axis=1).tolist()


@pytest.mark.parametrize(
    "shape",
    [
        (3, 3),
        (4, 3, 3),
        (2, 4),
        (2, 1),
        (1, 4, 2, 3),
        (1, 1, 1, 2, 3),
        # nothing of the right width
        (0, 3),
        (0, 2, 3),
        (4, 0, 3),
    ],
)
def test_other_shapes_are_not_read(shape):
    assert positions(np.zeros(shape, np.int64)) is None


def test_no_number_in_a_field():
    with pytest.raises(PackingError, match=r"^mine: position_ids holds NaN$"):
        positions([0, 1, np.nan])
    assert positions([0.0, 1.5, 2.0], rows=1) == [[[0, 1.5, 2]]]


def test_several_masks_in_one_field_are_no_array():
    batch = read_batch({"input_ids": [[1]], "labels": [[1]], "attention_mask": {"full": [[1]]}}, "mine")
    assert batch.array("attention_mask") is None
    assert batch.array("absent") is None


def test_the_place_of_a_negative_id():
    with pytest.raises(PackingError, match=r"mine: input_ids\[1, 1\] is -2, expected ids from 0"):
        read_batch({"input_ids": [[0, 0], [0, -2]], "labels": [[0, 0], [0, 0]]}, "mine")
    assert read_batch({"input_ids": [[0]], "labels": [[0]]}, "mine").ids.tolist() == [[0]]


@pytest.mark.parametrize(
    ("lengths", "shown"),
    [([1] * 8, "[1, 1, 1, 1, 1, 1, 1, 1], 8 in all"), ([1] * 10, "[1, 1, 1, 1, 1, 1, 1, 1]…, 10 in all")],
)
def test_eight_lengths_are_shown(lengths, shown):
    with pytest.raises(PackingError) as caught:
        read_row({"input_ids": [1] * 9, "labels": [1] * 9, "seq_lengths": lengths}, "mine", 0)
    assert str(caught.value) == (
        f"mine: row 0 has seq_lengths {shown}; expected positive lengths of 9 tokens in all"
    )


def test_labels_of_fewer_rows_are_filled():
    ids = [[1, 2], [3, 4]]
    assert read_batch({"input_ids": ids, "labels": [[5]]}, "mine").labels.tolist() == [
        [5, -100],
        [-100, -100],
    ]
    labels = [[5, 6, 7], [8, 9, 7], [0, 0, 0]]
    assert read_batch({"input_ids": ids, "labels": labels}, "mine").labels.tolist() == [[5, 6], [8, 9]]
