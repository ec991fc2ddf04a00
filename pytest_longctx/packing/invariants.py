"""The invariants: what must hold of every batch, each as one function from a view to its offences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.packing.batch import PER_TOKEN, VARLEN, to_numpy
from pytest_longctx.tokens.sample import IGNORED
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from pytest_longctx.packing.layout import Layout
    from pytest_longctx.packing.view import View

# Offences of one kind within one batch that are worth showing.
MOST_SHOWN = 3


def _at(view: View, flat: int, expected: Any, found: Any, note: str = "") -> Witness:
    row, segment, column = view.place(flat)
    return Witness(view.name(flat), expected, found, position=column, row=row, segment=segment, note=note)


def _in_row(view: View, row: int, expected: Any, found: Any, note: str = "") -> Witness:
    return Witness(f"row {view.first_row + row}", expected, found, row=view.first_row + row, note=note)


def token_order(view: View) -> Iterator[Witness]:
    """The tokens of a sample stand in their order."""
    for piece in np.flatnonzero(view.pieces.shuffled)[:MOST_SHOWN].tolist():
        yield _at(view, int(view.pieces.start[piece]), "the sample's order", "its tokens in another order")


def labels_preserved(view: View) -> Iterator[Witness]:
    """A label is the sample's own, or -100 at the start of a segment."""
    expected = view.samples.labels[view.sources]
    found = view.labels[view.places]
    wrong = expected != found
    starts = np.isin(view.places, view.starts) & (found == IGNORED)
    for place in np.flatnonzero(wrong & ~starts)[:MOST_SHOWN].tolist():
        yield _at(view, int(view.places[place]), int(expected[place]), int(found[place]))


def position_ids(view: View) -> Iterator[Witness]:
    """Positions restart at 0 with every segment and count its tokens."""
    if view.batch.fields.get("position_ids") is None:
        yield from _no_positions(view)
        return
    positions = view.batch.array("position_ids")
    if positions is None or positions.shape != view.batch.ids.shape:
        return  # aligned_fields tells of the shape
    begin = np.repeat(view.pieces.start, view.pieces.end - view.pieces.start)
    flat = np.flatnonzero(view.covered)
    expected = flat - begin
    found = positions.ravel()[flat].astype(np.int64)
    for place in np.flatnonzero(expected != found)[:MOST_SHOWN].tolist():
        yield _at(view, int(flat[place]), int(expected[place]), int(found[place]))


def _no_positions(view: View) -> Iterator[Witness]:
    """Without position_ids a model counts through the row: right for one segment a row only."""
    later = np.flatnonzero(np.diff(view.pieces.start // view.batch.width) == 0)
    for piece in later[:MOST_SHOWN].tolist():
        start = int(view.pieces.start[piece + 1])
        yield _at(view, start, 0, start % view.batch.width, "no position_ids in the batch")


def boundary_labels(view: View) -> Iterator[Witness]:
    """The first token of a segment is no target: it would be predicted from the sample before it."""
    inner = view.starts[view.starts % view.batch.width > 0]
    trained = inner[view.labels[inner] != IGNORED]
    for flat in trained[:MOST_SHOWN].tolist():
        yield _at(view, flat, IGNORED, int(view.labels[flat]))


def _segments(view: View) -> set[tuple[int, int]]:
    return set(zip(view.pieces.start.tolist(), view.pieces.end.tolist(), strict=True))


def _misnamed(view: View, layout: Layout) -> Iterator[Witness]:
    """Segments that a dialect names otherwise than they are; what it says of padding is left aside."""
    for fault in layout.faults[:MOST_SHOWN]:
        yield Witness(layout.dialect, found=fault, row=view.first_row)
    starts, ends = layout.flat
    true_starts, true_ends = view.pieces.start, view.pieces.end
    missing = true_starts[~_pairs_in(true_starts, true_ends, starts, ends)]
    for flat in missing[:MOST_SHOWN].tolist():
        end = int(true_ends[np.searchsorted(true_starts, flat)])
        named = np.flatnonzero((starts <= flat) & (flat < ends))
        found = f"{starts[named[0]]}–{ends[named[0]]}" if named.size else "no segment"
        yield _at(view, flat, f"{flat}–{end}", found, f"as {layout.dialect} has it")


def _pairs_in(
    starts: NDArray[np.int64], ends: NDArray[np.int64], other: NDArray[np.int64], other_ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """bool[S], spans that are among the others."""
    found = np.isin(starts, other)
    if found.any():
        order = np.argsort(other, kind="stable")
        place = np.minimum(np.searchsorted(other[order], starts), len(other) - 1)
        found &= other_ends[order][place] == ends
    return found


def cumulative_boundaries(view: View) -> Iterator[Witness]:
    """cu_seq_lens holds every segment's border, from 0 to the last token, the same for queries and keys."""
    for layout in view.layouts:
        if layout.dialect == "cu_seq_lens":
            yield from _misnamed(view, layout)
    queries, keys = view.batch.array("cu_seq_lens_q"), view.batch.array("cu_seq_lens_k")
    if queries is not None and keys is not None and not np.array_equal(queries, keys):
        yield Witness("cu_seq_lens_k", "as cu_seq_lens_q", "other borders", row=view.first_row)


def sequence_indices(view: View) -> Iterator[Witness]:
    """seq_idx numbers the segments of a row 0, 1, 2, …"""
    index = view.batch.array("seq_idx")
    if index is None or index.size != view.batch.ids.size:
        return
    rows = view.pieces.start // view.batch.width
    first = np.searchsorted(rows, rows)
    number = np.arange(len(rows)) - first
    flat = np.flatnonzero(view.covered)
    expected = np.repeat(number, view.pieces.end - view.pieces.start)
    found = index.ravel()[flat].astype(np.int64)
    for place in np.flatnonzero(expected != found)[:MOST_SHOWN].tolist():
        yield _at(view, int(flat[place]), int(expected[place]), int(found[place]))


def varlen_fields(view: View) -> Iterator[Witness]:
    """All four varlen arguments or none; borders in int32, lengths as plain integers that fit.

    With one missing transformers falls back to plain attention over the whole row.
    """
    fields = view.batch.fields
    present = [name for name in VARLEN if fields.get(name) is not None]
    if not present:
        return
    for name in VARLEN:
        value = fields.get(name)
        if value is None:
            yield Witness(name, "all four varlen arguments, or none", "missing", row=view.first_row)
        elif name.startswith("cu_"):
            dtype = str(to_numpy(value, name).dtype)
            if dtype != "int32":
                yield Witness(name, "int32", dtype, row=view.first_row)
        elif type(value) is not int:
            yield Witness(name, "a plain int", type(value).__name__, row=view.first_row)
        else:
            longest = int((view.pieces.end - view.pieces.start).max(initial=0))
            if value < longest:
                yield Witness(name, longest, value, row=view.first_row)


def aligned_fields(view: View) -> Iterator[Witness]:
    """Every tensor with one entry a token has as many as input_ids."""
    rows, width = view.batch.ids.shape
    for name in PER_TOKEN:
        array = view.batch.fields.get(name)
        shape = tuple(getattr(array, "shape", ()) or ())
        if array is None or len(shape) not in (2, 3):
            continue
        if shape[-1] != width or shape[-2] not in (1, rows):
            yield Witness(name, f"({rows}, {width})", str(shape), row=view.first_row)


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
    shown = np.zeros(view.batch.ids.size + 1, dtype=np.int64)
    np.add.at(shown, starts, 1)
    np.add.at(shown, ends, -1)
    hidden = np.flatnonzero(view.covered & (np.cumsum(shown)[:-1] == 0))
    if hidden.size:
        yield _at(view, int(hidden[0]), "attended", "masked as padding")


def padding_segment(view: View) -> Iterator[Witness]:
    """Padding carries no label and stands in no sample's segment."""
    padding = ~view.covered
    trained = np.flatnonzero(padding & (view.labels != IGNORED))
    for flat in trained[:MOST_SHOWN].tolist():
        yield _at(view, flat, IGNORED, int(view.labels[flat]), "padding with a label")
    if not padding.any():
        return
    counts = np.concatenate([[0], np.cumsum(padding)])
    for layout in view.layouts:
        starts, ends = layout.flat
        inside = counts[ends] - counts[starts]
        mixed = np.flatnonzero((inside > 0) & (inside < ends - starts))
        for segment in mixed[:MOST_SHOWN].tolist():
            note = f"as {layout.dialect} has it"
            yield _at(view, int(starts[segment]), "no padding", f"{inside[segment]} padding tokens", note)


def supervision_per_row(view: View) -> Iterator[Witness]:
    """Every row of a batch has a target that enters the loss."""
    targets = (view.batch.labels[:, 1:] != IGNORED).sum(axis=1)
    for row in np.flatnonzero(targets == 0).tolist():
        yield _in_row(view, row, "≥ 1 target", 0, _names(view, row))


def _names(view: View, row: int) -> str:
    begin, stop = np.searchsorted(view.pieces.start, [row * view.batch.width, (row + 1) * view.batch.width])
    names = [view.name(int(flat)) for flat in view.pieces.start[begin:stop][:MOST_SHOWN]]
    more = stop - begin - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def orphan_fragments(view: View) -> Iterator[Witness]:
    """No piece trains a part of an answer without the tokens ahead of it."""
    known = view.pieces.known & (view.pieces.offset > 0)
    for piece in np.flatnonzero(known).tolist():
        start, end = int(view.pieces.start[piece]), int(view.pieces.end[piece])
        if (view.labels[start:end] != IGNORED).any():
            offset = int(view.pieces.offset[piece])
            yield _at(view, start, "starts at token 0", f"starts at token {offset}", "the prompt is not in its segment")


def index_range(view: View, vocabulary: int | None = None, row_stride: int | None = None) -> Iterator[Witness]:
    """Ids lie in the vocabulary, and no kernel's 32-bit offset (token × row stride) wraps."""
    if vocabulary is not None and int(view.batch.ids.max()) >= vocabulary:
        flat = int(view.batch.ids.argmax())
        yield _at(view, flat, f"< {vocabulary}", int(view.batch.ids.ravel()[flat]), "an id outside the vocabulary")
    largest = view.batch.ids.size * (row_stride or 1)
    if largest > 2**31 - 1:
        note = f"{view.batch.ids.size} tokens × row stride {row_stride or 1}"
        yield Witness(f"row {view.first_row}", 2**31 - 1, largest, row=view.first_row, note=note)


PER_BATCH: dict[str, Callable[[View], Iterator[Witness]]] = {
    "token_order": token_order,
    "labels_preserved": labels_preserved,
    "position_ids": position_ids,
    "boundary_labels": boundary_labels,
    "cumulative_boundaries": cumulative_boundaries,
    "sequence_indices": sequence_indices,
    "varlen_fields": varlen_fields,
    "aligned_fields": aligned_fields,
    "mask_agrees": mask_agrees,
    "padding_segment": padding_segment,
    "supervision_per_row": supervision_per_row,
    "orphan_fragments": orphan_fragments,
}
