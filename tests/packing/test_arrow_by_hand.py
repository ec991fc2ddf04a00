"""Samples and packed rows through Arrow files, against lists written down by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.admitted import Admitted
from pytest_longctx.packing.arrow import BLOCK_ROWS, arrow_rows, write_arrow, write_rows
from pytest_longctx.packing.batch import read_row
from pytest_longctx.testing.examples import Case

datasets = pytest.importorskip("datasets")

ROWS = [
    {"input_ids": [5, 6, 7], "labels": [-100, 6, 7], "seq_lengths": [2, 1]},
    {"input_ids": [8], "labels": [8], "seq_lengths": [1]},
]


def through(write, file):
    write(file)
    rows = list(arrow_rows(datasets.Dataset.from_file(str(file))))
    assert all(values.dtype == np.int64 for row in rows for values in row.values())
    return [{name: values.tolist() for name, values in row.items()} for row in rows]


def test_packed_rows(tmp_path):
    assert through(lambda file: write_rows(iter(ROWS), file), tmp_path / "rows.arrow") == ROWS


@pytest.mark.parametrize("without", ["seq_lengths", "labels"])
def test_columns_that_the_first_row_lacks(tmp_path, without):
    rows = [{name: values for name, values in row.items() if name != without} for row in ROWS]
    assert (
        through(lambda file: write_rows([{**rows[0], without: None}, rows[1]], file), tmp_path / "r") == rows
    )


def test_more_rows_than_a_block_holds(tmp_path):
    rows = [{"input_ids": [number]} for number in range(2 * BLOCK_ROWS + 1)]
    assert through(lambda file: write_rows(rows, file), tmp_path / "rows.arrow") == rows


def test_no_rows(tmp_path):
    with pytest.raises(PackingError, match=r"^the packer gave no rows, expected one at least$"):
        write_rows([], tmp_path / "rows.arrow")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([[1.0, 2.5]], "mine: row 1: labels has type float64, expected integers"),
        ([[1, None]], "mine: row 1: labels has type float64, expected integers"),
        ([[1], None], "mine: row 2 has no labels"),
    ],
)
def test_rows_that_hold_no_integers(labels, told):
    rows = datasets.Dataset.from_dict({"input_ids": [[5, 6]] * len(labels), "labels": labels})
    *_, last = arrow_rows(rows)
    with pytest.raises(PackingError, match=re.escape(told)):
        read_row(last, "mine", len(labels))


def test_samples_cut_as_planned(tmp_path):
    samples = [{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}, {"input_ids": [4], "labels": [4]}]
    samples += [{"input_ids": [5, 6], "labels": [-100, 6]}]
    case = Case([{name: np.array(values) for name, values in sample.items()} for sample in samples], 8)
    planned = Admitted(case.samples, np.array([2, 0, 2]))
    assert through(lambda file: write_arrow(planned, file), tmp_path / "samples.arrow") == [
        {"input_ids": [1, 2], "labels": [-100, 2]},
        {"input_ids": [5, 6], "labels": [-100, 6]},
    ]
