"""Views of three samples in two rows, to be put down by hand with anything changed."""

from __future__ import annotations

import numpy as np

from pytest_longctx.packing.batch import read_batch
from pytest_longctx.packing.layout import layouts
from pytest_longctx.packing.match import Pieces
from pytest_longctx.packing.view import View
from pytest_longctx.testing.examples import Case
from tests.packing.deliveries import sample

# Samples a, b, c of 3, 2 and 4 tokens: ids 10 … 12, 20 and 21, 30 … 33.
SAMPLES = Case([sample(1, 2, 10), sample(1, 1, 20), sample(2, 2, 30)], names=["a", "b", "c"]).samples
# Two rows of 5: a and b; c and one token of padding.
IDS = [[10, 11, 12, 20, 21], [30, 31, 32, 33, 0]]
LABELS = [[-100, 11, 12, -100, 21], [-100, -100, 32, 33, -100]]
POSITIONS = [[0, 1, 2, 0, 1], [0, 1, 2, 3, 0]]
TRUE = ((0, 3, 0, 0), (3, 5, 1, 0), (5, 9, 2, 0))


def view_of(ids=IDS, labels=LABELS, pieces=TRUE, shuffled=(), edges=None, **fields):
    """A view of pieces (start, end, sample, offset) whose packed rows have numbers from 7 on."""
    batch = read_batch({"input_ids": np.array(ids), "labels": np.array(labels), **fields}, "mine")
    start, end, number, offset = np.array(pieces, np.int64).reshape(-1, 4).T
    found = Pieces(start, end, number, offset, np.isin(np.arange(len(start)), shuffled))
    edges = np.arange(batch.rows) * batch.width if edges is None else np.array(edges)
    return View(batch, SAMPLES, found, layouts(batch), edges, 7)


def changed(values, *changes):
    """A copy with other values at some (row, column)."""
    values = np.array(values)
    for place, value in changes:
        values[place] = value
    return values


def told(witnesses):
    return [(w.id, w.row, w.segment, w.position, w.expected, w.found) for w in witnesses]
