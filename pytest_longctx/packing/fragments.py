"""Stretches of a row that no dialect names as a sample: cut, split, or run together. For diagnosis only.

A row is taken apart greedily: at each place a whole sample, else the sample tokens that agree longest. All
comparisons are of hashes, so a piece costs a few array operations, whatever its length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.hashing import prefix_hashes, span_hashes
from pytest_longctx.packing.match import UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_longctx.packing.hashing import Hashes
    from pytest_longctx.packing.match import SampleIndex
    from pytest_longctx.tokens.ledger import Samples

    Ints = NDArray[np.int64]

# Indexing every position of more tokens than this would take over 1 GB.
MOST_TOKENS = 16_000_000
SMALL = 1 << 14
GRAM = 8

Piece = tuple[int, int, int, int]
"""(start, end, sample, offset); sample is UNKNOWN for tokens that no sample has."""


class Fragments:
    """Every position of every sample, by the hash of the few tokens that follow it."""

    def __init__(self, samples: Samples, index: SampleIndex) -> None:
        self.index, self.offsets = index, samples.offsets
        self.gram = 1 if len(samples.ids) <= SMALL else GRAM
        self.prefix = prefix_hashes(samples.ids)
        positions = np.arange(max(0, len(samples.ids) - self.gram + 1), dtype=np.int64)
        hashes = span_hashes(self.prefix, positions, positions + self.gram)
        self.order = np.argsort(hashes, kind="stable")
        self.hashes = hashes[self.order]
        # Where a sample ends, seen from each of its tokens.
        self.ends = np.repeat(self.offsets[1:], np.diff(self.offsets))

    def take_apart(self, ids: Ints, start: int, end: int) -> list[Piece]:
        """The pieces of ids[start:end], in order; whole samples among them are counted as delivered."""
        prefix, size = prefix_hashes(ids[start:end]), end - start
        known = self._known_places(prefix, size)
        pieces: list[Piece] = []
        at = 0
        while at < size:
            sample, offset, length = self._whole(prefix, at, size, pieces)
            if not length:
                sample, offset, length = self._part(
                    prefix, at, size, bounded=not pieces or pieces[-1][2] != UNKNOWN
                )
            if not length:
                following = int(np.searchsorted(known, at + 1))
                length = (int(known[following]) if following < len(known) else size) - at
            if sample == UNKNOWN and pieces and pieces[-1][2] == UNKNOWN:
                pieces[-1] = (pieces[-1][0], start + at + length, UNKNOWN, 0)
            else:
                pieces.append((start + at, start + at + length, sample, offset))
            at += length
        return pieces

    def _known_places(self, prefix: Hashes, size: int) -> Ints:
        """Places whose next few tokens some sample has."""
        places = np.arange(max(0, size - self.gram + 1), dtype=np.int64)
        hashes = span_hashes(prefix, places, places + self.gram)
        found = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return places[self.hashes[found] == hashes] if len(self.hashes) else places[:0]

    def _whole(self, prefix: Hashes, at: int, size: int, pieces: list[Piece]) -> tuple[int, int, int]:
        """(sample, 0, length) of the sample that stands whole here; first the one after the last piece's."""
        index = self.index
        sample = pieces[-1][2] + 1 if pieces and pieces[-1][2] != UNKNOWN else len(index.lengths)
        fresh = sample < len(index.lengths) and not index.delivered[sample]
        if not (fresh and index.is_whole(prefix, at, size, sample)):
            sample = index.longest_whole(prefix, at, size)
        if sample == UNKNOWN:
            return UNKNOWN, 0, 0
        index.delivered[sample] += 1
        return sample, 0, int(index.lengths[sample])

    def _part(self, prefix: Hashes, at: int, size: int, *, bounded: bool) -> tuple[int, int, int]:
        """(sample, offset, length) of the sample tokens that agree longest with the row from `at` on.

        A few tokens agree by chance with some sample. They count only between borders: from the start of the
        row, of a sample, or behind another piece, up to the end of the row or of the sample.
        """
        gram = min(self.gram, size - at)
        positions = self._candidates(prefix, at, gram)
        room = np.minimum(self.ends[positions] - positions, size - at)
        positions, room = positions[room >= gram], room[room >= gram]
        if not positions.size:
            return UNKNOWN, 0, 0
        common = _common_lengths(self.prefix, positions, prefix, at, gram, room)
        sample = np.searchsorted(self.offsets, positions, side="right") - 1
        offset = positions - self.offsets[sample]
        closed = (positions + common == self.ends[positions]) | (at + common == size)
        chance = (common < GRAM) & ~(closed & (bounded | (offset == 0)))
        best = np.lexsort((self.index.delivered[sample] == 0, offset == 0, closed, common, ~chance))[-1]
        if chance[best]:
            return UNKNOWN, 0, 0
        return int(sample[best]), int(offset[best]), int(common[best])

    def _candidates(self, prefix: Hashes, at: int, gram: int) -> Ints:
        wanted = span_hashes(prefix, np.array([at]), np.array([at + gram]))[0]
        if gram < self.gram:
            # Too short for the index: only starts of samples are looked at.
            starts = self.offsets[:-1]
            starts = starts[starts + gram <= self.offsets[-1]]
            found: Ints = starts[span_hashes(self.prefix, starts, starts + gram) == wanted]
            return found
        low, high = (int(np.searchsorted(self.hashes, wanted, side=side)) for side in ("left", "right"))
        return self.order[low:high]


def _common_lengths(left: Hashes, positions: Ints, right: Hashes, at: int, known: int, room: Ints) -> Ints:
    """int64[C], tokens that agree from each position on, at most `room`: a bisection for all at once."""
    low, high = np.full(len(positions), known, dtype=np.int64), room.copy()
    start = np.full(len(positions), at, dtype=np.int64)
    while (low < high).any():
        middle = (low + high + 1) // 2
        agree = span_hashes(left, positions, positions + middle) == span_hashes(right, start, start + middle)
        low, high = np.where(agree, middle, low), np.where(agree, high, middle - 1)
    return low
