"""Layouts: what a batch says of its segments, in any dialect, in one normal form. O(tokens)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.batch import DENSE, Fault, to_numpy
from pytest_longctx.packing.mask import read_dense

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_longctx.packing.batch import Batch


@dataclass(frozen=True)
class Layout:
    """The segments of a batch of `rows` × `width` tokens, in order of row and start.

    row, start, end: int64[S], columns `[start, end)` of a row. What no segment covers is padding.
    `names_segments` is False for a padding mask: it tells tokens from padding, not samples from each other.
    `faults` tell what the dialect says that no layout can mean.
    """

    dialect: str
    rows: int
    width: int
    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    names_segments: bool = True
    faults: tuple[Fault, ...] = ()

    @cached_property
    def flat(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and ends in the flattened batch."""
        base = self.row * self.width
        return base + self.start, base + self.end


def layouts(batch: Batch) -> list[Layout]:
    """Every dialect present in a batch, read apart from the others."""
    return [layout for layout in (reader(batch) for reader in _READERS) if layout is not None]


def from_flat(
    dialect: str,
    batch: Batch,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    faults: tuple[Fault, ...] = (),
) -> Layout:
    """A layout from segments of the flattened batch; a segment across rows is cut at the row's end."""
    row = starts // batch.width
    end = np.minimum(ends - row * batch.width, batch.width)
    return Layout(dialect, batch.rows, batch.width, row, starts - row * batch.width, end, faults=faults)


def _runs(batch: Batch, new: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Flat starts and ends of runs, which begin at each row's start and where `new` is set, bool[B, T-1]."""
    begins = np.ones(batch.ids.shape, dtype=np.bool_)
    begins[:, 1:] = new
    starts = np.flatnonzero(begins)
    return starts, np.append(starts[1:], batch.ids.size)


def _position_ids(batch: Batch) -> Layout | None:
    planes = batch.per_token("position_ids")
    if planes is None:
        return None
    positions = planes[0]
    # A segment starts where a position does not follow the one before it, as transformers' masks have it.
    return from_flat("position_ids", batch, *_runs(batch, positions[:, 1:] != positions[:, :-1] + 1))


def _seq_idx(batch: Batch) -> Layout | None:
    planes = batch.per_token("seq_idx")
    if planes is None:
        return None
    index = planes[0]
    starts, ends = _runs(batch, index[:, 1:] != index[:, :-1])
    shown = index.ravel()[starts] >= 0
    return from_flat("seq_idx", batch, starts[shown], ends[shown])


def _cu_seq_lens(batch: Batch) -> Layout | None:
    edges = batch.array("cu_seq_lens_q")
    if edges is None:
        edges = batch.array("cu_seq_lens_k")
    if edges is None:
        return None
    size = batch.ids.size
    edges = edges.ravel().astype(np.int64)
    faults = tuple(map(Fault, _edge_faults(edges, size)))
    edges = np.unique(np.clip(edges, 0, size))
    return from_flat("cu_seq_lens", batch, edges[:-1], edges[1:], faults)


def _edge_faults(edges: NDArray[np.int64], size: int) -> Iterator[str]:
    if edges.size < 2:
        yield f"has {edges.size} entries, expected a start and an end at least"
        return
    if edges[0] != 0:
        yield f"starts at {edges[0]}, expected 0"
    if (np.diff(edges) <= 0).any():
        yield "does not grow strictly"
    if edges[-1] != size:
        yield f"ends at {edges[-1]}, expected {size} tokens"


def _seq_lengths(batch: Batch) -> Layout | None:
    value = batch.fields.get("seq_lengths")
    if value is None:
        return None
    if not hasattr(value, "__len__"):
        raise PackingError(
            f"{batch.maker}: seq_lengths is a {type(value).__name__}, expected the lengths of each row"
        )
    per_row = list(value) if batch.rows > 1 or _nested(value) else [value]
    lengths = [to_numpy(row, f"{batch.maker}: seq_lengths").ravel().astype(np.int64) for row in per_row]
    return from_lengths("seq_lengths", batch, lengths)


def _nested(value: Any) -> bool:
    return len(value) > 0 and np.ndim(value[0]) > 0


def from_lengths(dialect: str, batch: Batch, lengths: list[NDArray[np.int64]]) -> Layout:
    """A layout from the segment lengths of each row; several rows of lengths may lie in one flattened row."""
    if batch.rows == 1:
        lengths = [np.fromiter(chain.from_iterable(row.tolist() for row in lengths), dtype=np.int64)]
    lengths = [row[row > 0] for row in lengths]
    faults = tuple(
        Fault(f"lengths add up to {row.sum()}, more than {batch.width} tokens", number * batch.width)
        for number, row in enumerate(lengths)
        if row.sum() > batch.width
    )
    if len(lengths) != batch.rows:
        faults = (*faults, Fault(f"has {len(lengths)} rows, the batch {batch.rows}"))
    ends = [
        np.minimum(np.cumsum(row), batch.width) + number * batch.width for number, row in enumerate(lengths)
    ]
    starts = [end - np.diff(end, prepend=number * batch.width) for number, end in enumerate(ends)]
    first, last = (np.concatenate([*part, np.zeros(0, np.int64)]) for part in (starts, ends))
    inside = (first < last) & (first < batch.ids.size)
    return from_flat(dialect, batch, first[inside], last[inside], faults)


def _block_mask(batch: Batch) -> Layout | None:
    masks = {name: mask for name, mask in batch.masks.items() if mask.ndim in DENSE}
    if not masks:
        return None
    # The full mask names the segments; sliding and chunked ones show a part of them.
    masks = dict(sorted(masks.items(), key=lambda item: item[0] != "full_attention"))
    starts, ends, faults = read_dense(masks, batch.rows, batch.width, batch.maker)
    return from_flat("block_mask", batch, starts, ends, faults)


def _mask_2d(batch: Batch) -> Layout | None:
    where = f"{batch.maker}: attention_mask"
    masks = [to_numpy(mask, where) for mask in batch.masks.values() if mask.ndim not in DENSE]
    planes = batch.planes(masks[0], where) if masks else None
    if planes is None:
        return None
    if not all(np.array_equal(mask, masks[0]) for mask in masks):
        raise PackingError(f"{where} has padding masks that differ, expected the same one for all layers")
    mask = planes[0]
    numbered = bool((mask > 1).any())
    if not numbered:
        mask = mask != 0
    starts, ends = _runs(batch, mask[:, 1:] != mask[:, :-1])
    shown = mask.ravel()[starts] != 0
    layout = from_flat("segment_mask" if numbered else "padding_mask", batch, starts[shown], ends[shown])
    return layout if numbered else replace(layout, names_segments=False)


_READERS = (_cu_seq_lens, _block_mask, _mask_2d, _seq_idx, _seq_lengths, _position_ids)
