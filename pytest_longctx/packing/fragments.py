"""Stretches of a packed row that are no whole sample: cut, split, or run together. For diagnosis only.

A row is taken apart greedily: at each place the sample tokens that agree longest. All comparisons are of
hashes, so a piece costs a few array operations, whatever its length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.hashing import prefix_hashes, span_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_longctx.packing.hashing import Hashes
    from pytest_longctx.tokens.ledger import Samples

# Indexing every position of more tokens than this would take over 1 GB.
MOST_TOKENS = 16_000_000
SMALL = 1 << 14
GRAM = 8

Piece = tuple[int, int, int, int]
"""(start, end, sample, offset); sample is -1 for tokens that no sample has."""


class Fragments:
    """Every position of every sample, by the hash of the few tokens that follow it."""

    def __init__(self, samples: Samples) -> None:
        self.offsets = samples.offsets
        self.gram = 1 if len(samples.ids) <= SMALL else GRAM
        self.prefix = prefix_hashes(samples.ids)
        positions = np.arange(max(0, len(samples.ids) - self.gram + 1), dtype=np.int64)
        hashes = span_hashes(self.prefix, positions, positions + self.gram)
        self.order = np.argsort(hashes, kind="stable")
        self.hashes = hashes[self.order]
        # Where a sample ends, seen from each of its tokens.
        self.ends = np.repeat(self.offsets[1:], np.diff(self.offsets))

    def take_apart(
        self, ids: NDArray[np.int64], start: int, end: int, delivered: NDArray[np.int64]
    ) -> list[Piece]:
        """The pieces of ids[start:end], in order.

        Args:
            delivered: int64[n], how often each sample was seen whole; of equal candidates one that was not
                seen is taken.
        """
        prefix = prefix_hashes(ids[start:end])
        size = end - start
        pieces: list[Piece] = []
        at = 0
        while at < size:
            length, position = self._longest(prefix, at, size, delivered)
            if length == 0:
                at = self._extend_unknown(pieces, start, at)
                continue
            sample = int(np.searchsorted(self.offsets, position, side="right")) - 1
            pieces.append((start + at, start + at + length, sample, position - int(self.offsets[sample])))
            at += length
        return pieces

    @staticmethod
    def _extend_unknown(pieces: list[Piece], start: int, at: int) -> int:
        if pieces and pieces[-1][2] == -1:
            pieces[-1] = (pieces[-1][0], start + at + 1, -1, 0)
        else:
            pieces.append((start + at, start + at + 1, -1, 0))
        return at + 1

    def _longest(self, prefix: Hashes, at: int, size: int, delivered: NDArray[np.int64]) -> tuple[int, int]:
        """Length and position of the sample tokens that agree longest with the row from `at` on."""
        gram = min(self.gram, size - at)
        positions = self._candidates(prefix, at, gram)
        room = np.minimum(self.ends[positions] - positions, size - at)
        positions, room = positions[room >= gram], room[room >= gram]
        if not positions.size:
            return 0, 0
        common = _common_lengths(self.prefix, positions, prefix, at, gram, room)
        sample = np.searchsorted(self.offsets, positions, side="right") - 1
        begins = positions == self.offsets[sample]
        whole = begins & (common == self.ends[positions] - positions)
        fresh = delivered[sample] == 0
        best = np.lexsort((fresh, begins, common, whole & fresh))[-1]
        return int(common[best]), int(positions[best])

    def _candidates(self, prefix: Hashes, at: int, gram: int) -> NDArray[np.int64]:
        if gram < self.gram:
            # Too short for the index: only starts of samples are looked at.
            starts = self.offsets[:-1]
            starts = starts[starts + gram <= self.offsets[-1]]
            wanted = span_hashes(prefix, np.array([at]), np.array([at + gram]))
            return starts[span_hashes(self.prefix, starts, starts + gram) == wanted]
        wanted = span_hashes(prefix, np.array([at]), np.array([at + gram]))[0]
        low = int(np.searchsorted(self.hashes, wanted, side="left"))
        return self.order[low : int(np.searchsorted(self.hashes, wanted, side="right"))]


def _common_lengths(
    left: Hashes,
    positions: NDArray[np.int64],
    right: Hashes,
    at: int,
    known: int,
    room: NDArray[np.int64],
) -> NDArray[np.int64]:
    """int64[C], tokens that agree from each position on, at most `room`: a bisection for all at once."""
    low, high = np.full(len(positions), known, dtype=np.int64), room.copy()
    start = np.full(len(positions), at, dtype=np.int64)
    while (low < high).any():
        middle = (low + high + 1) // 2
        agree = span_hashes(left, positions, positions + middle) == span_hashes(right, start, start + middle)
        low, high = np.where(agree, middle, low), np.where(agree, high, middle - 1)
    return low
