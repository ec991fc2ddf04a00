"""What each dialect of a batch says of its segments, against the segments that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.match import UNKNOWN
from pytest_longctx.tokens.sample import IGNORED
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_longctx.packing.layout import Layout
    from pytest_longctx.packing.view import View

    Ints = NDArray[np.int64]

# These leave padding out of every segment; the others must put it somewhere.
_TELLS_PADDING = ("padding_mask", "segment_mask", "seq_lengths")


def _misnamed(view: View, layout: Layout) -> Iterator[Witness]:
    """Segments that a dialect names otherwise than they are; what it says of padding is left aside."""
    for fault in layout.faults:
        row, _, _ = view.place(fault.at)
        yield Witness(layout.dialect, found=fault.text, row=row)
    starts, ends = layout.flat
    known = view.pieces.sample != UNKNOWN
    begins, stops = view.pieces.start[known], view.pieces.end[known]
    # The end of a dialect's segment that starts at the same place; 0 where there is none.
    at = np.minimum(np.searchsorted(starts, begins), len(starts) - 1)
    found = np.where(starts[at] == begins, ends[at], 0) if len(starts) else np.zeros_like(begins)
    for place in np.flatnonzero(found != stops).tolist():
        flat, stop, end = int(begins[place]), int(stops[place]), int(found[place])
        # A dialect that counts padding to the segment before it is padding_segment's offender.
        if end > stop and not view.covered[stop:end].any():
            continue
        named = np.flatnonzero((starts <= flat) & (flat < ends))
        said = f"{starts[named[0]]}–{ends[named[0]]}" if named.size else "no segment"
        yield view.at(flat, f"{flat}–{stop}", said, f"as {layout.dialect} has it")


def cumulative_boundaries(view: View) -> Iterator[Witness]:
    """cu_seq_lens holds every segment's border, from 0 to the last token, the same for queries and keys."""
    for layout in view.layouts:
        if layout.dialect == "cu_seq_lens":
            yield from _misnamed(view, layout)
    queries, keys = view.batch.array("cu_seq_lens_q"), view.batch.array("cu_seq_lens_k")
    if queries is not None and keys is not None and not np.array_equal(queries, keys):
        yield Witness("cu_seq_lens_k", "as cu_seq_lens_q", "other borders", row=view.first_row)


def sequence_indices(view: View) -> Iterator[Witness]:
    """seq_idx numbers the segments of a batch's row 0, 1, 2, …"""
    planes = view.batch.per_token("seq_idx")
    if planes is None:
        return
    index, pieces = planes[0].ravel(), view.pieces
    first = index[pieces.start].astype(np.int64)
    own = np.repeat(first[pieces.known], (pieces.end - pieces.start)[pieces.known])
    for place in view.first_in_piece(np.flatnonzero(view.on_places(index) != own)):
        yield view.at(int(view.places[place]), int(own[place]), int(index[view.places[place]]))
    row = pieces.start // view.batch.width
    new = np.diff(row, prepend=-1) != 0
    expected = np.where(new, 0, np.concatenate([[0], first[:-1]]) + 1)
    # Where no sample is known, segments cannot be counted.
    known = pieces.sample != UNKNOWN
    known &= np.where(new, True, np.concatenate([[True], known[:-1]]))
    for piece in np.flatnonzero(known & (first != expected)).tolist():
        yield view.at(int(pieces.start[piece]), int(expected[piece]), int(first[piece]))


def mask_agrees(view: View) -> Iterator[Witness]:
    """Every dialect present names the same segments, and a dense mask shows exactly them."""
    for layout in view.layouts:
        if layout.names_segments:
            yield from _misnamed(view, layout)
        else:
            yield from _hidden(view, layout)


def _hidden(view: View, layout: Layout) -> Iterator[Witness]:
    """Tokens of a sample that the padding mask takes for padding."""
    starts, ends = layout.flat
    change = np.zeros(view.batch.ids.size + 1, dtype=np.int64)
    np.add.at(change, starts, 1)
    np.add.at(change, ends, -1)
    hidden = view.covered & (np.cumsum(change[:-1]) == 0)
    for flat in np.flatnonzero(hidden & ~np.append(False, hidden[:-1])).tolist():
        yield view.at(flat, "attended", "masked as padding")


def padding_segment(view: View) -> Iterator[Witness]:
    """Padding carries no label and stands in no sample's segment."""
    if not view.padded:
        return
    padding = ~view.covered
    labelled = padding & (view.labels != IGNORED)
    for flat in np.flatnonzero(labelled & ~np.append(False, labelled[:-1])).tolist():
        yield view.at(flat, IGNORED, int(view.labels[flat]), "padding with a label")
    counts = np.concatenate([[0], np.cumsum(padding)])
    for layout in view.layouts:
        if layout.dialect == "position_ids":
            continue  # positions may count on through the padding behind a sample
        starts, ends = layout.flat
        inside = counts[ends] - counts[starts]
        whole = inside == ends - starts
        wrong = (inside > 0) & (~whole | (layout.dialect in _TELLS_PADDING))
        for segment in np.flatnonzero(wrong).tolist():
            note = f"as {layout.dialect} has it"
            yield view.at(int(starts[segment]), "no padding", f"{inside[segment]} padding tokens", note)
