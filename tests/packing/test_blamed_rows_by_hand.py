"""What is wrong with one packed row of a batch of two is told of that row."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing.collators import block_mask, padded
from pytest_longctx.testing import Case, failing_checks
from pytest_longctx.testing.examples import flat
from tests.packing.deliveries import row_of

# Row 0 holds samples of 3 and 2 tokens, row 1 one of 4.
SAMPLES = [
    {"input_ids": [1, 2, 3], "labels": [-100, 2, 3]},
    {"input_ids": [4, 5], "labels": [-100, 5]},
    {"input_ids": [6, 7, 8, 9], "labels": [-100, 7, 8, 9]},
]


def told(collator, change):
    """Witnesses by check of a batch of both rows that was changed."""

    def collate(rows):
        batch = collator(rows)
        change(batch)
        return batch

    def pack(samples, max_tokens_per_bin):
        return [row_of(0, 1, rows=SAMPLES), row_of(2, rows=SAMPLES)]

    failing = failing_checks(pack, collate, Case(SAMPLES, 5), batch_size=2)
    return {name: [(w.id, w.row, w.expected, w.found) for w in found] for name, found in failing.items()}


pytestmark = pytest.mark.parametrize("row", [0, 1])


@pytest.mark.parametrize(("collator", "at"), [(padded, [(0, 1), (1, 1)]), (flat, [(0, 1), (0, 6)])])
def test_a_target_that_is_lost(collator, at, row):
    def change(batch):
        batch["labels"][at[row]] = -100

    # a and b have 2 + 1 targets, c has 3.
    assert told(collator, change)["target_count"] == [(f"row {row}", row, 3, 2)]


def test_a_leak_of_a_dense_mask(row):
    def change(batch):
        batch["attention_mask"][row, 0, 0, 1] = True

    found = "head 0: token 0 sees token 1, which comes after it"
    assert told(block_mask, change)["mask_agrees"] == [("block_mask", row, None, found)]


def test_a_leak_in_a_flattened_row(row):
    def change(batch):
        seen = np.zeros((1, 1, 9, 9), dtype=bool)
        for start, stop in ((0, 3), (3, 5), (5, 9)):
            seen[0, 0, start:stop, start:stop] = np.tril(np.ones((stop - start, stop - start)))
        seen[0, 0, (3, 5)[row], 0] = True
        batch["attention_mask"] = seen

    found = f"head 0: token {(3, 5)[row]} sees token 0 of another segment"
    assert told(flat, change)["mask_agrees"] == [("block_mask", row, None, found)]


def test_lengths_of_more_tokens_than_the_row_has(row):
    def change(batch):
        lengths = [[3, 2], [4]]
        lengths[row][-1] += 2
        batch["seq_lengths"] = lengths

    assert told(padded, change)["mask_agrees"][0] == (
        "seq_lengths",
        row,
        None,
        f"lengths add up to {(7, 6)[row]}, more than 5 tokens",
    )
