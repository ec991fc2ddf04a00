"""How many labels of each packed row enter the loss, and how many should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.tokens.sample import IGNORED
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_longctx.packing.view import View

    Ints = NDArray[np.int64]


def other_targets(view: View, found: Ints, wanted: Ints) -> Iterator[Witness]:
    """The packed rows of a batch that have another number of targets."""
    for place in np.flatnonzero(found != wanted).tolist():
        row = view.first_row + place
        yield Witness(f"row {row}", int(wanted[place]), int(found[place]), row=row)


def other_divisor(view: View, wanted: int, said: int) -> Witness:
    """A batch whose loss the trainer divides by another number than that of its targets."""
    first, last = view.first_row, view.first_row + len(view.edges) - 1
    name = f"row {first}" if first == last else f"rows {first}–{last}"
    row = first if first == last else None
    return Witness(name, wanted, said, row=row, note="the trainer's num_items_in_batch")


def targets_of_rows(view: View) -> tuple[Ints, Ints]:
    """Labels of each packed row that enter the loss, and those that should, int64[R] each.

    The first column of a batch never enters it. A sample's own first token is never predicted; every other
    label of a token that was delivered is.
    """
    pieces, samples = view.pieces, view.samples
    targets = view.labels != IGNORED
    targets[:: view.batch.width] = False
    wanted = _per_row(view, view.places[view.source_labels != IGNORED])
    starts = pieces.known & (pieces.offset == 0)
    labelled = samples.labels[samples.offsets[pieces.sample[starts]]] != IGNORED
    wanted -= _per_row(view, pieces.start[starts][labelled])
    for piece in np.flatnonzero(pieces.shuffled).tolist():
        start, begin = int(pieces.start[piece]), int(samples.offsets[pieces.sample[piece]])
        labels = samples.labels[begin + 1 : begin + int(pieces.end[piece]) - start]
        row = np.searchsorted(view.edges, start, side="right") - 1
        wanted[row] += np.count_nonzero(labels != IGNORED)
    return _per_row(view, np.flatnonzero(targets)), wanted


def _per_row(view: View, places: Ints) -> Ints:
    """How many of some flat places, in ascending order, lie in each packed row, int64[R]."""
    return np.diff(np.searchsorted(places, view.edges), append=len(places))
