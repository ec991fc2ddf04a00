"""Content hashes of token spans: polynomial hashes modulo 2^64 over prefix sums, all vectorised."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

# Odd, so that it has an inverse modulo 2^64 and a span's hash does not depend on where the span lies.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))
_MIX = np.uint64(0xD6E8FEB86659FD93)


@lru_cache(maxsize=64)
def _powers(base: np.uint64, size: int) -> Hashes:
    steps = np.full(size, base, dtype=np.uint64)
    steps[:1] = 1
    powers: Hashes = np.multiply.accumulate(steps)
    return powers


def _tables(size: int) -> tuple[Hashes, Hashes]:
    # Sizes are rounded up, so that batches of many widths share a table.
    rounded = 1 << max(10, (size + 1).bit_length())
    return _powers(_BASE, rounded), _powers(_INVERSE, rounded)


def mixed(ids: NDArray[np.integer]) -> Hashes:
    """uint64[T], each id spread over 64 bits.

    Three rounds, as in the finalizer of MurmurHash3 and its kind: after one, sums of ids are often equal.
    """
    spread = ids.astype(np.uint64)
    spread += np.uint64(1)
    for _ in range(3):
        spread *= _MIX
        spread ^= spread >> np.uint64(32)
    return spread


def prefix_hashes(ids: NDArray[np.integer]) -> Hashes:
    """uint64[T+1], sums of id times power over the first tokens."""
    prefix = np.zeros(len(ids) + 1, dtype=np.uint64)
    np.cumsum(mixed(ids) * _tables(len(ids))[0][: len(ids)], out=prefix[1:])
    return prefix


def span_hashes(prefix: Hashes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Hashes:
    """uint64[S], the hash of each span `[start, end)`, the same wherever the span lies."""
    hashes: Hashes = (prefix[ends] - prefix[starts]) * _tables(len(prefix))[1][starts]
    return hashes


def unordered_hashes(ids: NDArray[np.integer], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Hashes:
    """uint64[S], a hash of each span that does not depend on the order of its tokens."""
    sums = np.zeros(len(ids) + 1, dtype=np.uint64)
    np.cumsum(mixed(ids), out=sums[1:])
    hashes: Hashes = sums[ends] - sums[starts]
    return hashes
