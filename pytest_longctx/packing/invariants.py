"""The invariants: what must hold of every batch, each as one function from a view to its offences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.packing.batch import PER_TOKEN, VARLEN, to_numpy
from pytest_longctx.packing.dialects import (
    cumulative_boundaries,
    mask_agrees,
    padding_segment,
    sequence_indices,
)
from pytest_longctx.packing.view import list_names
from pytest_longctx.tokens.sample import IGNORED
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from pytest_longctx.packing.batch import Batch
    from pytest_longctx.packing.view import View


def token_order(view: View) -> Iterator[Witness]:
    """The tokens of a sample stand in their order."""
    for piece in np.flatnonzero(view.pieces.shuffled).tolist():
        yield view.at(int(view.pieces.start[piece]), "the sample's order", "its tokens in another order")
    # Segments are found by hashes: here they are compared token for token.
    wrong = view.on_places(view.batch.ids.ravel()) != view.samples.ids[view.sources]
    for place in view.first_in_piece(np.flatnonzero(wrong)):
        flat = int(view.places[place])
        expected = int(view.samples.ids[view.sources[place]])
        yield view.at(flat, expected, int(view.batch.ids.ravel()[flat]), "another token")


def labels_preserved(view: View) -> Iterator[Witness]:
    """A label is the sample's own, or -100 at the start of a segment."""
    found = view.on_places(view.labels)
    wrong = np.flatnonzero(view.source_labels != found)
    lost_at_start = (view.ordinals[wrong] == 0) & (found[wrong] == IGNORED)
    for place in view.first_in_piece(wrong[~lost_at_start]):
        yield view.at(int(view.places[place]), int(view.source_labels[place]), int(found[place]))


def position_ids(view: View) -> Iterator[Witness]:
    """Positions restart at 0 with every segment and count its tokens."""
    if view.batch.fields.get("position_ids") is None:
        yield from _no_positions(view)
        return
    planes = view.batch.per_token("position_ids")
    if planes is None:
        return  # aligned_fields tells of the shape
    for plane in planes:
        found = view.on_places(plane.ravel())
        for place in view.first_in_piece(np.flatnonzero(view.ordinals != found)):
            yield view.at(int(view.places[place]), int(view.ordinals[place]), found[place].item())


def _no_positions(view: View) -> Iterator[Witness]:
    """Without position_ids a model counts through the row: right for one segment at its start only."""
    for start in _inner_starts(view).tolist():
        yield view.at(start, 0, start % view.batch.width, "no position_ids in the batch")


def _inner_starts(view: View) -> NDArray[np.int64]:
    """Where segments start behind the first column of a batch's row."""
    starts: NDArray[np.int64] = view.starts[np.flatnonzero(view.starts % view.batch.width)]
    return starts


def boundary_labels(view: View) -> Iterator[Witness]:
    """The first token of a segment is no target: it would be predicted from the sample before it."""
    inner = _inner_starts(view)
    for flat in inner[view.labels[inner] != IGNORED].tolist():
        yield view.at(flat, IGNORED, int(view.labels[flat]))


def varlen_fields(view: View) -> Iterator[Witness]:
    """All four varlen arguments or none; borders in int32, lengths as plain integers that fit.

    With one missing transformers falls back to plain attention over the whole row.
    """
    fields = view.batch.fields
    if all(fields.get(name) is None for name in VARLEN):
        return
    longest = int((view.pieces.end - view.pieces.start).max(initial=0))
    for name in VARLEN:
        expected, found = _varlen(name, fields.get(name), longest)
        if expected != found:
            yield Witness(name, expected, found, row=view.first_row)


def _varlen(name: str, value: Any, longest: int) -> tuple[str | int, str | int]:
    """What is expected of one varlen argument and what is found; equal when it is right."""
    if value is None:
        return "all four varlen arguments, or none", "missing"
    if name.startswith("cu_"):
        return "int32", str(to_numpy(value, name).dtype)
    if type(value) is not int:
        return "a plain int", type(value).__name__
    return max(longest, value), value


def aligned_fields(view: View) -> Iterator[Witness]:
    """Every tensor with one entry a token has as many as input_ids."""
    dense = "block_mask" in {layout.dialect for layout in view.layouts}
    for name in PER_TOKEN:
        if name == "attention_mask" and dense:
            continue  # its shape was looked at as it was read
        array = view.batch.array(name)
        if array is not None and not _is_aligned(view.batch, name, array.shape):
            yield Witness(name, str(view.batch.ids.shape), str(array.shape), row=view.first_row)


def _is_aligned(batch: Batch, name: str, shape: tuple[int, ...]) -> bool:
    """One row of positions or a mask may stand for all; labels are each row's own."""
    return shape == batch.ids.shape if name == "labels" else batch.per_token(name) is not None


def supervision_per_row(view: View) -> Iterator[tuple[Witness, int]]:
    """Every packed row has a target that enters the loss: the others, each with its tokens."""
    targets = view.labels != IGNORED
    targets[:: view.batch.width] = False  # the first token of a batch's row is never predicted
    stops = np.append(view.edges[1:], view.batch.ids.size).tolist()
    for row, (start, stop) in enumerate(zip(view.edges.tolist(), stops, strict=True)):
        if targets[start:stop].any():
            continue
        first, last = np.searchsorted(view.pieces.start, (start, stop))
        number = view.first_row + row
        names = list_names(view.samples, view.pieces.sample[first:last])
        tokens = int(np.count_nonzero(view.covered[start:stop]))
        yield Witness(f"row {number}", "≥ 1 target", 0, row=number, note=names), tokens


def orphan_fragments(view: View) -> Iterator[Witness]:
    """No piece trains a part of an answer without the tokens ahead of it."""
    pieces = view.pieces
    # Unknown pieces, and samples in another order, have the offset 0.
    for piece in np.flatnonzero(pieces.offset).tolist():
        start, end, offset = (int(column[piece]) for column in (pieces.start, pieces.end, pieces.offset))
        if (view.labels[start:end] != IGNORED).any():
            found = f"starts at token {offset}"
            yield view.at(start, "starts at token 0", found, "the prompt is not in its segment")


def effective_window(found: int | None, wanted: int) -> Iterator[Witness]:
    """The trainer's own limit in tokens, None where it has none, is the contract's."""
    if found != wanted:
        yield Witness("the trainer's limit", wanted, "none" if found is None else found)


def index_range(
    view: View, vocabulary: int | None = None, row_stride: int | None = None
) -> Iterator[Witness]:
    """Ids lie in the vocabulary, and no kernel's 32-bit offset (token × row stride) wraps."""
    if vocabulary is not None and int(view.batch.ids.max()) >= vocabulary:
        flat = int(view.batch.ids.argmax())
        found = int(view.batch.ids.ravel()[flat])
        yield view.at(flat, f"< {vocabulary}", found, "an id outside the vocabulary")
    yield from offset_range(view.batch.ids.size, row_stride or 1, view.first_row)


def offset_range(tokens: int, row_stride: int, row: int) -> Iterator[Witness]:
    """The last element that a kernel reaches, token × row stride, fits 32 bits."""
    largest = tokens * row_stride - 1
    if largest > 2**31 - 1:
        note = f"{tokens:,} tokens × row stride {row_stride:,}"
        yield Witness(f"row {row}", 2**31 - 1, largest, row=row, note=note)


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
    "orphan_fragments": orphan_fragments,
}
