"""Small samples, packed rows of them, and what a pipeline may deliver of those."""

from __future__ import annotations

import numpy as np

from pytest_longctx.packing.audit import Delivery
from pytest_longctx.packing.batch import PackedRow
from pytest_longctx.packing.collators import padded


def sample(prompt, answer, start):
    """So many ids from `start` on; the last `answer` of them are supervised."""
    ids = list(range(start, start + prompt + answer))
    return {"input_ids": ids, "labels": [-100] * prompt + ids[prompt:]}


# Samples of 5, 3, 4 and 2 tokens; their answers have 2, 2, 3 and 1, all behind the first token.
ROWS = [sample(3, 2, 10), sample(1, 2, 20), sample(1, 3, 30), sample(1, 1, 40)]


def row_of(*members, rows=ROWS):
    """A packed row of some samples, by number."""
    chosen = [rows[member] for member in members]
    return {
        "input_ids": np.concatenate([row["input_ids"] for row in chosen]),
        "labels": np.concatenate([row["labels"] for row in chosen]),
        "seq_lengths": [len(row["input_ids"]) for row in chosen],
    }


def packed(row):
    return PackedRow(row["input_ids"], row["labels"], np.array(row["seq_lengths"]))


def both(*rows, collate=padded, **keys):
    """Packed rows and the batch of them."""
    return Delivery([packed(row) for row in rows], collate(list(rows)), **keys)


def alone(*rows, collate=padded, **keys):
    """A batch whose packed rows cannot be seen."""
    return Delivery(None, collate(list(rows)), **keys)
