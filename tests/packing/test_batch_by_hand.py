"""Edges of what can be read at all: the first fault is told, and one row of positions stands for all."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.batch import Fault, read_batch, read_row


def batch(ids, **fields):
    return read_batch({"input_ids": np.array(ids), "labels": np.array(ids), **fields}, "mine")


def test_planes_of_positions_for_all_rows():
    planes = np.array([[[0, 1, 2]], [[0, 0, 1]]])
    found = batch([[1, 2, 3], [4, 5, 6]], position_ids=planes).per_token("position_ids")
    assert found.tolist() == [[[0, 1, 2], [0, 1, 2]], [[0, 0, 1], [0, 0, 1]]]


def test_the_first_id_below_zero_is_told():
    with pytest.raises(PackingError, match=r"^mine: input_ids\[0, 1\] is -1, expected ids from 0$"):
        batch([[1, -1], [-2, 3]])
    with pytest.raises(PackingError, match=r"is -1, expected ids from 0$"):
        batch([[1, -1]])


def test_a_row_with_more_labels_than_ids():
    with pytest.raises(PackingError, match="has 2 input_ids and 3 labels, expected as many"):
        read_row({"input_ids": [1, 2], "labels": [1, 2, 3]}, "mine", 0)


def test_a_row_of_hundreds_of_tokens():
    ids = list(range(300))
    assert len(read_row({"input_ids": ids, "labels": ids}, "mine", 0).labels) == 300


def test_a_fault_of_the_whole_batch_lies_at_its_start():
    assert Fault("odd").at == 0
