from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.batch import read_batch, read_row

ROW = {"input_ids": [1, 2, 3], "labels": [-100, 2, 3], "seq_lengths": [2, 1]}
BATCH = {"input_ids": [[1, 2, 3]], "labels": [[-100, 2, 3]]}


def test_row_of_lists_arrays_and_tensors():
    torch = pytest.importorskip("torch")
    for convert in (list, np.asarray, torch.tensor):
        row = read_row({name: convert(value) for name, value in ROW.items()}, "packer mine", 0)
        assert [column.tolist() for column in row] == list(ROW.values())
        assert {column.dtype for column in row} == {np.dtype(np.int64)}
    assert read_row({**ROW, "seq_lengths": None}, "packer mine", 0).lengths is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [1, 2]}, "packer mine: row 7 has 3 input_ids and 2 labels, expected as many"),
        ({"labels": None}, "packer mine: row 7 has no labels; it holds input_ids, labels, seq_lengths"),
        ({"input_ids": [], "labels": []}, "packer mine: row 7 is empty, expected one sample at least"),
        ({"input_ids": [1, -2, 3]}, "packer mine: row 7: input_ids[1] is -2, expected ids from 0"),
        ({"input_ids": [1.0, 2.0, 3.0]}, "packer mine: row 7: input_ids has type float64, expected integers"),
        ({"input_ids": [[1, 2, 3]]}, "packer mine: row 7: input_ids has shape (1, 3), expected (tokens,)"),
        (
            {"input_ids": ["a", "b", "c"]},
            "packer mine: row 7: input_ids holds list of <U1, expected an array of numbers",
        ),
        (
            {"seq_lengths": [2, 2]},
            "packer mine: row 7 has seq_lengths [2, 2], 4 in all; "
            "expected positive lengths of 3 tokens in all",
        ),
        (
            {"seq_lengths": [3, 0]},
            "packer mine: row 7 has seq_lengths [3, 0], 3 in all; "
            "expected positive lengths of 3 tokens in all",
        ),
    ],
)
def test_rows_that_cannot_be_read_are_named(change, message):
    with pytest.raises(PackingError) as caught:
        read_row({**ROW, **change}, "packer mine", 7)
    assert str(caught.value) == message


def test_ragged_columns_are_named():
    with pytest.raises(PackingError, match="packer mine: row 0: input_ids is ragged"):
        read_row({"input_ids": [[1], [2, 3]], "labels": [1, 2]}, "packer mine", 0)
    with pytest.raises(PackingError, match="collator mine: labels is ragged"):
        read_batch({**BATCH, "labels": [[1], [2, 3]]}, "collator mine")


@pytest.mark.parametrize("row", [None, "input_ids", [1, 2, 3], 5])
def test_rows_that_are_no_mappings_are_named(row):
    expected = f"packer mine: row 0 is a {type(row).__name__}, expected a mapping with input_ids and labels"
    with pytest.raises(PackingError) as caught:
        read_row(row, "packer mine", 0)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (None, "mine gave a NoneType, expected a mapping with input_ids and labels"),
        ({}, "mine: the batch has no input_ids; it holds nothing"),
        ({"input_ids": [[1]]}, "mine: the batch has no labels; it holds input_ids"),
        ({"input_ids": [[]], "labels": [[]]}, "mine gave an empty batch, shape (1, 0)"),
        ({**BATCH, "input_ids": [1, 2]}, "mine: input_ids has shape (2,), expected (rows, tokens)"),
        ({**BATCH, "input_ids": [[1, 2, -100]]}, "mine: input_ids[0, 2] is -100, expected ids from 0"),
        ({**BATCH, "labels": [[0.5, 1, 2]]}, "mine: labels has type float64, expected integers"),
    ],
)
def test_batches_that_cannot_be_read_are_named(batch, message):
    with pytest.raises(PackingError) as caught:
        read_batch(batch, "mine")
    assert str(caught.value) == message


def test_labels_of_another_length_are_cut_or_filled():
    assert read_batch({**BATCH, "labels": [[5]]}, "mine").labels.tolist() == [[5, -100, -100]]
    assert read_batch({**BATCH, "labels": [[5, 6, 7, 8]]}, "mine").labels.tolist() == [[5, 6, 7]]


def test_fields_with_an_entry_a_token():
    batch = read_batch({**BATCH, "position_ids": [0, 1, 2], "seq_idx": [[0, 0]], "other": None}, "mine")
    assert batch.per_token("position_ids").tolist() == [[[0, 1, 2]]]
    assert batch.per_token("seq_idx") is None
    assert batch.per_token("other") is None


def test_half_precision_is_read():
    torch = pytest.importorskip("torch")
    batch = read_batch({**BATCH, "attention_mask": torch.ones(1, 3, dtype=torch.bfloat16)}, "mine")
    assert batch.array("attention_mask").tolist() == [[1.0, 1.0, 1.0]]
