"""Dense 4-D attention masks, read and checked block by block; never copied whole.

The diagonal and the one below it name the segments: a token that sees itself is no padding, and one that sees
the token before it continues that token's segment. What else each token sees is then counted, not compared:
it sees all of its segment up to itself, and so many columns in all.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.batch import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]
    Ints = NDArray[np.int64]

BLOCK = 1024
"""Queries looked at together."""
# exp(-1000) is 0 in every float type; -10, or the slopes of ALiBi, only weaken what is seen.
_HIDDEN = -1000.0


def read_dense(
    masks: Mapping[str, Any], rows: int, width: int, maker: str
) -> tuple[Ints, Ints, tuple[Fault, ...]]:
    """Segments of masks of shape (B or 1, heads or 1, T, T), in the flattened batch.

    A bool mask allows where it is true, an additive one above -1000. The first mask names the
    segments, and a token must see all of its segment up to itself; the others (sliding windows, say) may show
    less. What padding sees is left aside.

    Args:
        masks: by name, as the newer models of transformers take them; one mask has the name "".

    Returns:
        starts int64[S], ends int64[S], faults.

    Raises:
        PackingError: a mask of another shape, or with NaN.
    """
    grids = {name: _Grid(mask, rows, width, maker) for name, mask in masks.items()}
    whole = next(iter(grids.values()))
    starts, ends = [], []
    faults: list[Fault] = []
    for row in range(rows):
        begin, stop = whole.segments(row)
        starts.append(begin + row * width)
        ends.append(stop + row * width)
        for name, grid in grids.items():
            faults += [
                Fault(f"{name}{' ' if name else ''}{fault.text}", row * width + fault.at)
                for fault in grid.faults(row, begin, stop, exact=grid is whole)
            ]
    return np.concatenate(starts), np.concatenate(ends), tuple(faults)


class _Grid:
    """One mask, read by row of the batch."""

    def __init__(self, mask: Any, rows: int, width: int, maker: str) -> None:
        shape = tuple(mask.shape)
        if len(shape) == 3:
            mask = mask[:, None]
        if shape[-2:] != (width, width) or shape[0] not in (1, rows) or not shape[1]:
            raise PackingError(
                f"{maker}: attention_mask has shape {shape}, expected ({rows}, heads, {width}, {width})"
            )
        self.mask, self.width, self.maker = mask, width, maker

    def _heads(self, row: int) -> Any:
        return self.mask[row % self.mask.shape[0]]

    def segments(self, row: int) -> tuple[Ints, Ints]:
        """Starts and ends of one row's segments, int64[S] each; padding lies between them."""
        grid = self._heads(row)[0]
        index = np.arange(self.width)
        seen = self._read(grid[index, index])
        begins = seen.copy()
        begins[1:] &= ~(self._read(grid[index[1:], index[:-1]]) & seen[:-1])
        stops = np.append(np.flatnonzero(begins | ~seen), self.width)
        starts = np.flatnonzero(begins)
        return starts, stops[np.searchsorted(stops, starts, side="right")]

    def faults(self, row: int, starts: Ints, ends: Ints, *, exact: bool) -> Iterator[Fault]:
        """The first fault of each head, in words, at its query in the row."""
        if not exact or row < self.mask.shape[0]:
            for head, grid in enumerate(self._heads(row)):
                fault = self._fault(grid, starts.tolist(), ends.tolist(), exact=exact)
                if fault is not None:
                    yield fault._replace(text=f"head {head}: {fault.text}")

    def _fault(self, grid: Any, starts: list[int], ends: list[int], *, exact: bool) -> Fault | None:
        for start, end in zip(starts, ends, strict=True):
            for query in range(start, end, BLOCK):
                stop = min(query + BLOCK, end)
                allowed = self._read(grid[query:stop])
                own = np.count_nonzero(allowed[:, start:query])
                own += np.count_nonzero(allowed[:, query:stop] & triangle(stop - query))
                wanted = (stop - query) * (query - start) + (stop - query) * (stop - query + 1) // 2
                if own != np.count_nonzero(allowed) or (exact and own != wanted):
                    return _describe(allowed, start, query)
        return None

    def _read(self, block: Any) -> Flags:
        """Which places of a block may be seen, bool."""
        if hasattr(block, "detach"):
            block = block.detach().cpu()
            block = block.float().numpy() if block.is_floating_point() else block.numpy()
        if not np.issubdtype(block.dtype, np.floating):
            seen: Flags = block.astype(np.bool_, copy=False)
            return seen
        if np.isnan(block).any():
            raise PackingError(f"{self.maker}: attention_mask holds NaN")
        allowed: Flags = block > _HIDDEN
        return allowed


@lru_cache(maxsize=1)
def _largest_triangle() -> Flags:
    return np.tri(BLOCK, dtype=np.bool_)


def triangle(size: int) -> Flags:
    """bool[size, size], true on the diagonal and below it, for at most `BLOCK`; not to be written to."""
    return _largest_triangle()[:size, :size]


def _describe(allowed: Flags, start: int, first: int) -> Fault:
    """What is wrong with the first wrong query of a block; `start` is its segment's, `first` the block's."""
    columns, queries = np.arange(allowed.shape[1]), np.arange(first, first + len(allowed))[:, None]
    own = (columns >= start) & (columns <= queries)
    leaks = np.argwhere(allowed & ~own)
    query, column = (leaks if leaks.size else np.argwhere(own & ~allowed))[0].tolist()
    query += first
    if not leaks.size:
        return Fault(f"token {query} does not see token {column} of its own segment", query)
    where = "which comes after it" if column > query else "of another segment"
    return Fault(f"token {query} sees token {column}{',' if column > query else ''} {where}", query)
