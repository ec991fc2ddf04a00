"""A batch beside the samples it carries: the true segments, found by content, and every dialect's word on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.fragments import MOST_TOKENS, Fragments
from pytest_longctx.packing.hashing import prefix_hashes
from pytest_longctx.packing.layout import Layout, from_lengths, layouts
from pytest_longctx.packing.match import UNKNOWN, Pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_longctx.packing.batch import Batch
    from pytest_longctx.packing.hashing import Hashes
    from pytest_longctx.packing.match import SampleIndex
    from pytest_longctx.tokens.ledger import Samples


@dataclass(frozen=True)
class View:
    """A batch, its true pieces and its dialects. `first_row` numbers the batch's rows in the whole run."""

    batch: Batch
    samples: Samples
    pieces: Pieces
    layouts: list[Layout]
    first_row: int

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """int64[B*T]."""
        return self.batch.labels.ravel()

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Flat batch positions of the tokens that carry a sample's tokens, int64[K]."""
        return _ranges(self.pieces.start, self.pieces.end, self.pieces.known)

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """The sample token at each of `places`, as position in the samples' flat columns."""
        pieces, known = self.pieces, self.pieces.known
        begin = self.samples.offsets[pieces.sample] + pieces.offset
        return _ranges(begin, begin + pieces.end - pieces.start, known)

    @cached_property
    def covered(self) -> NDArray[np.bool_]:
        """bool[B*T], tokens inside a piece; the others are padding."""
        covered = np.zeros(self.batch.ids.size, dtype=np.bool_)
        covered[_ranges(self.pieces.start, self.pieces.end, np.ones_like(self.pieces.known))] = True
        return covered

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Flat positions at which a piece starts."""
        return self.pieces.start

    def place(self, flat: int) -> tuple[int, int, int]:
        """(row in the run, segment in its row, column) of a flat position."""
        row, column = divmod(int(flat), self.batch.width)
        piece = int(np.searchsorted(self.pieces.start, flat, side="right")) - 1
        first = int(np.searchsorted(self.pieces.start, row * self.batch.width))
        return self.first_row + row, max(0, piece - first), column

    def name(self, flat: int) -> str:
        """The id of the sample at a flat position."""
        piece = int(np.searchsorted(self.pieces.start, flat, side="right")) - 1
        inside = piece >= 0 and flat < self.pieces.end[piece]
        sample = int(self.pieces.sample[piece]) if inside else UNKNOWN
        return self.samples.ledger.ids[sample] if sample != UNKNOWN else "(padding)" if not inside else "(unknown)"


def _ranges(
    start: NDArray[np.int64], end: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """All integers of the chosen ranges `[start, end)`, one after the other."""
    start, size = start[chosen], (end - start)[chosen]
    shift = start - np.cumsum(size) + size
    return np.repeat(shift, size) + np.arange(int(size.sum()), dtype=np.int64)


class Viewer:
    """Finds the true segments of one batch after the other."""

    def __init__(self, samples: Samples, index: SampleIndex) -> None:
        self.samples, self.index = samples, index
        self._fragments: Fragments | None = None

    def view(self, batch: Batch, packed_lengths: list[NDArray[np.int64]] | None, first_row: int) -> View:
        """A batch beside its samples.

        The true segments are those of the dialect that names most tokens as whole samples; what it names
        otherwise is taken apart by content, so that a wrong dialect is not mistaken for lost samples.

        Args:
            packed_lengths: what the packer said of its rows' segments, where it said anything.
        """
        found = layouts(batch)
        candidates = [*found, *_guesses(batch, packed_lengths)]
        prefix = prefix_hashes(batch.ids.ravel())
        best = max(candidates, key=lambda layout: self._recognised(prefix, layout))
        return View(batch, self.samples, self._pieces(batch, prefix, best), found, first_row)

    def _recognised(self, prefix: Hashes, layout: Layout) -> int:
        starts, ends = layout.flat
        known = self.index.recognise(prefix, starts, ends)
        return int((ends - starts)[known].sum())

    def _pieces(self, batch: Batch, prefix: Hashes, layout: Layout) -> Pieces:
        ids = batch.ids.ravel()
        pieces = self.index.match(ids, prefix, *layout.flat)
        unknown = pieces.sample == UNKNOWN
        if not unknown.any():
            return pieces
        tail = _constant_tail(batch.ids)
        regions = _regions(pieces.start[unknown], pieces.end[unknown], batch.width)
        return _merge(pieces, [piece for region in regions for piece in self._take_apart(ids, *region, tail)])

    def _take_apart(
        self, ids: NDArray[np.int64], start: int, end: int, tail: NDArray[np.bool_]
    ) -> list[tuple[int, int, int, int]]:
        if tail[start]:
            return []
        if len(self.samples.ids) > MOST_TOKENS:
            return [(start, end, UNKNOWN, 0)]
        self._fragments = self._fragments or Fragments(self.samples)
        pieces = self._fragments.take_apart(ids, start, end, self.index.delivered)
        while pieces and tail[pieces[-1][0]] and pieces[-1][3:] != (0,):
            pieces.pop()
        if pieces and pieces[-1][2] == UNKNOWN:
            pieces[-1] = _without_tail(pieces[-1], tail)
        for first, last, sample, offset in pieces:
            if sample != UNKNOWN and offset == 0 and last - first == self.index.lengths[sample]:
                self.index.delivered[sample] += 1
        return [piece for piece in pieces if piece[0] < piece[1]]


def _guesses(batch: Batch, packed_lengths: list[NDArray[np.int64]] | None) -> list[Layout]:
    """Layouts that the batch does not name itself: the packer's, and one segment a row."""
    whole = from_lengths("one segment a row", batch, [np.array([batch.width])] * batch.rows)
    if packed_lengths is None:
        return [whole]
    return [from_lengths("packed rows", batch, packed_lengths), whole]


def _regions(start: NDArray[np.int64], end: NDArray[np.int64], width: int) -> list[tuple[int, int]]:
    """Unknown segments that touch within a row, joined: the border between them may itself be wrong."""
    joined = (start[1:] == end[:-1]) & (start[1:] % width != 0)
    first = start[np.append(True, ~joined)]
    last = end[np.append(~joined, True)]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _constant_tail(ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[B*T], the run of one id at the end of each row, where padding may stand."""
    same = ids == ids[:, -1:]
    run = np.minimum.accumulate(same[:, ::-1], axis=1)[:, ::-1]
    return run.ravel()


def _without_tail(piece: tuple[int, int, int, int], tail: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    start, end, sample, offset = piece
    padding = np.flatnonzero(tail[start:end])
    return start, start + int(padding[0]) if padding.size else end, sample, offset


def _merge(pieces: Pieces, replaced: list[tuple[int, int, int, int]]) -> Pieces:
    kept = pieces.sample != UNKNOWN
    added = np.asarray(replaced, dtype=np.int64).reshape(-1, 4)
    columns = [
        np.concatenate([old[kept], new])
        for old, new in zip(
            (pieces.start, pieces.end, pieces.sample, pieces.offset), added.T, strict=True
        )
    ]
    shuffled = np.concatenate([pieces.shuffled[kept], np.zeros(len(added), dtype=np.bool_)])
    order = np.argsort(columns[0], kind="stable")
    start, end, sample, offset = (column[order] for column in columns)
    return Pieces(start, end, sample, offset, shuffled[order])
