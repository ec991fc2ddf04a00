"""Dense 4-D attention masks, read and checked block by block; never copied whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import PackingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK_ELEMENTS = 1 << 22


def read_dense(
    mask: Any, rows: int, width: int, maker: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Segments of a mask of shape (B or 1, heads or 1, T, T), in the flattened batch.

    A bool mask allows where it is true, an additive one where it is (near) 0. A token's segment starts at the
    first column it may see; a token that may see nothing is padding. Everything else than "each token sees its
    segment from the start up to itself" is a fault.

    Returns:
        starts int64[S], ends int64[S], faults.
    """
    if tuple(mask.shape[-2:]) != (width, width) or mask.shape[0] not in (1, rows):
        shape = tuple(mask.shape)
        raise PackingError(
            f"{maker}: attention_mask has shape {shape}, expected ({rows}, heads, {width}, {width})"
        )
    first = np.stack([_first_visible(mask[row % mask.shape[0], 0], width, maker) for row in range(rows)])
    faults = []
    for row in range(mask.shape[0]):
        for head in range(mask.shape[1]):
            fault = _leak(mask[row, head], first[row], maker)
            if fault:
                faults.append(f"row {row}, head {head}: {fault}")
    flat_first = (first + np.arange(rows)[:, None] * width).ravel()
    seen = (first >= 0).ravel()
    index = np.arange(rows * width)
    starts = np.flatnonzero(seen & (flat_first == index))
    stops = np.concatenate([starts, np.flatnonzero(~seen), np.arange(1, rows + 1) * width])
    stops.sort()
    return starts, stops[np.searchsorted(stops, starts, side="right")], tuple(faults)


def _blocks(mask: Any, maker: str) -> Any:
    """(first query, bool[block, T]) over one (T, T) mask."""
    width = mask.shape[-1]
    step = max(1, BLOCK_ELEMENTS // width)
    for query in range(0, width, step):
        yield query, _allowed(mask[query : query + step], maker)


def _allowed(block: Any, maker: str) -> NDArray[np.bool_]:
    if hasattr(block, "detach"):
        block = block.detach().cpu()
        block = block.float().numpy() if block.is_floating_point() else block.numpy()
    if not np.issubdtype(block.dtype, np.floating):
        allowed: NDArray[np.bool_] = block.astype(np.bool_, copy=False)
        return allowed
    if np.isnan(block).any():
        raise PackingError(f"{maker}: attention_mask holds NaN")
    # An additive mask is 0 where attention is allowed and a large negative number elsewhere.
    return block > -1.0


def _first_visible(mask: Any, width: int, maker: str) -> NDArray[np.int64]:
    """int64[T], the first column each query sees, -1 where it sees none."""
    first = np.full(width, -1, dtype=np.int64)
    for query, allowed in _blocks(mask, maker):
        seen = allowed.argmax(axis=1)
        some = allowed[np.arange(len(allowed)), seen]
        first[query : query + len(allowed)] = np.where(some, seen, -1)
    return first


def _leak(mask: Any, first: NDArray[np.int64], maker: str) -> str:
    """The first query that sees anything but its segment up to itself, in words; empty when none does."""
    columns = np.arange(len(first))
    for query, allowed in _blocks(mask, maker):
        rows = np.arange(query, query + len(allowed))[:, None]
        begin = first[query : query + len(allowed)][:, None]
        expected = (columns >= begin) & (columns <= rows) & (begin >= 0)
        wrong = np.flatnonzero((allowed != expected).any(axis=1))
        if wrong.size:
            return _describe(allowed[wrong[0]], expected[wrong[0]], query + int(wrong[0]))
    return _orphan_start(first)


def _describe(allowed: NDArray[np.bool_], expected: NDArray[np.bool_], query: int) -> str:
    column = int(np.flatnonzero(allowed != expected)[0])
    if column > query:
        return f"token {query} sees token {column}, which comes after it"
    return f"token {query} does not see token {column} of its own segment"


def _orphan_start(first: NDArray[np.int64]) -> str:
    """A token whose segment starts at a token of another segment: the mask reaches over a border."""
    seen = np.flatnonzero(first >= 0)
    wrong = seen[first[first[seen]] != first[seen]]
    if wrong.size:
        query = int(wrong[0])
        return f"token {query} sees token {int(first[query])} of another segment"
    return ""
