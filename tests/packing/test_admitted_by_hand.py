"""What a packer is given, sample by sample and block by block."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pytest_longctx.packing.admitted import Admitted
from pytest_longctx.testing.examples import Case

# Samples of 3, 2, 4 and 1 tokens, whose ids tell where they stand: 10, 11, 12 | 20, 21 | 30 … 33 | 40.
ROWS = [
    {"input_ids": [10, 11, 12], "labels": [-100, 11, 12]},
    {"input_ids": [20, 21], "labels": [-100, 21]},
    {"input_ids": [30, 31, 32, 33], "labels": [-100, -100, 32, 33]},
    {"input_ids": [40], "labels": [40]},
]


@pytest.fixture
def admitted():
    """The first sample whole, the second left out, the third cut by one, the fourth whole."""
    return Admitted(Case(ROWS).samples, np.array([3, 0, 3, 1]))


def told(sample):
    return [sample["input_ids"].tolist(), sample["labels"].tolist()]


FIRST, THIRD, FOURTH = [[10, 11, 12], [-100, 11, 12]], [[30, 31, 32], [-100, -100, 32]], [[40], [40]]


def test_samples_as_they_should_be_packed(admitted):
    assert len(admitted) == 3
    assert admitted.lengths.tolist() == [3, 3, 1]
    assert [told(sample) for sample in admitted] == [FIRST, THIRD, FOURTH]
    assert {column.dtype for column in admitted[1].values()} == {np.dtype(np.int64)}
    assert told(admitted[-1]) == FOURTH
    assert [told(sample) for sample in admitted[1:]] == [THIRD, FOURTH]
    assert [told(sample) for sample in admitted[::-2]] == [FOURTH, FIRST]
    with pytest.raises(IndexError):
        admitted[3]


@pytest.mark.parametrize(
    ("most", "blocks"),
    [
        (1, [[FIRST], [THIRD], [FOURTH]]),  # a sample that is longer is a block of its own
        (3, [[FIRST], [THIRD], [FOURTH]]),
        (4, [[FIRST], [THIRD, FOURTH]]),
        (5, [[FIRST], [THIRD, FOURTH]]),
        (6, [[FIRST, THIRD], [FOURTH]]),
        (7, [[FIRST, THIRD, FOURTH]]),
        (99, [[FIRST, THIRD, FOURTH]]),
    ],
)
def test_blocks_of_a_bounded_number_of_tokens(admitted, most, blocks):
    found = list(admitted.blocks(most))
    assert [flat(*block) for block in found] == blocks
    assert [offsets.tolist() for offsets, _ in found] == [
        np.cumsum([0, *(len(ids) for ids, _ in block)]).tolist() for block in blocks
    ]
    assert {column.dtype for _, columns in found for column in columns.values()} == {np.dtype(np.int32)}


def flat(offsets, columns):
    """The samples of a block, cut apart."""
    return [
        [columns["input_ids"][start:stop].tolist(), columns["labels"][start:stop].tolist()]
        for start, stop in pairwise(offsets.tolist())
    ]


def test_hundreds_of_samples_in_blocks():
    rows = [{"input_ids": [number], "labels": [number]} for number in range(300)]
    found = list(Admitted(Case(rows).samples, np.ones(300, dtype=np.int64)).blocks(7))
    assert [len(offsets) - 1 for offsets, _ in found] == [7] * 42 + [6]
    assert np.concatenate([block["input_ids"] for _, block in found]).tolist() == list(range(300))


def test_nothing_is_admitted():
    nothing = Admitted(Case(ROWS).samples, np.zeros(4, dtype=np.int64))
    assert len(nothing) == 0
    assert list(nothing) == []
    assert list(nothing.blocks(8)) == []
