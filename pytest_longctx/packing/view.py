"""A batch beside the samples it carries: the true segments, found by content, and what each dialect says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pytest_longctx.packing.fragments import MOST_TOKENS, Fragments
from pytest_longctx.packing.hashing import prefix_hashes
from pytest_longctx.packing.layout import from_lengths, layouts
from pytest_longctx.packing.match import UNKNOWN, Pieces
from pytest_longctx.tokens.sample import IGNORED
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pytest_longctx.packing.batch import Batch, PackedRow
    from pytest_longctx.packing.fragments import Piece
    from pytest_longctx.packing.hashing import Hashes
    from pytest_longctx.packing.layout import Layout
    from pytest_longctx.packing.match import SampleIndex
    from pytest_longctx.tokens.ledger import Samples

    Ints = NDArray[np.int64]


# Samples of a row that are worth naming.
MOST_NAMES = 3


@dataclass(frozen=True)
class View:
    """A batch, its true pieces and its dialects.

    edges: int64[R], where each packed row starts in the flattened batch; `first_row` numbers them in the run.
    """

    batch: Batch
    samples: Samples
    pieces: Pieces
    layouts: list[Layout]
    edges: Ints
    first_row: int

    @cached_property
    def labels(self) -> Ints:
        """int64[B*T]."""
        return self.batch.labels.ravel()

    @cached_property
    def places(self) -> Ints:
        """Flat batch positions of the tokens that carry a sample's tokens in order, int64[K]."""
        return ranges(self.pieces.start, self.pieces.end, self.pieces.known)

    @cached_property
    def padded(self) -> bool:
        """Whether some tokens are in no piece."""
        return int((self.pieces.end - self.pieces.start).sum()) < self.batch.ids.size

    def on_places(self, column: NDArray[Any]) -> NDArray[Any]:
        """The entries of `places` of a column of B*T."""
        return column if len(self.places) == len(column) else column[self.places]

    @cached_property
    def sources(self) -> Ints:
        """The sample token at each of `places`, as position in the samples' flat columns."""
        begin = self.samples.offsets[self.pieces.sample] + self.pieces.offset
        return ranges(begin, begin + self.pieces.end - self.pieces.start, self.pieces.known)

    @cached_property
    def source_labels(self) -> NDArray[np.int32]:
        """The sample's own label of each of `places`, int32[K]."""
        return self.samples.labels[self.sources]

    @cached_property
    def ordinals(self) -> Ints:
        """The number of each of `places` in its piece, from 0, int64[K]."""
        known = self.pieces.known
        start = self.pieces.start[known]
        return self.places - np.repeat(start, self.pieces.end[known] - start)

    @cached_property
    def covered(self) -> NDArray[np.bool_]:
        """bool[B*T], tokens inside a piece; the others are padding."""
        change = np.zeros(self.batch.ids.size + 1, dtype=np.int8)
        change[self.pieces.start] += 1
        change[self.pieces.end] -= 1
        return np.cumsum(change[:-1], dtype=np.int8).view(np.bool_)

    @cached_property
    def starts(self) -> Ints:
        """Flat positions at which a sample's piece starts, whatever the order of its tokens."""
        starts: Ints = self.pieces.start[self.pieces.sample != UNKNOWN]
        return starts

    def place(self, flat: int) -> tuple[int, int, int]:
        """(packed row in the run, segment in its row, column in its row) of a flat position."""
        row = int(np.searchsorted(self.edges, flat, side="right")) - 1
        piece = int(np.searchsorted(self.pieces.start, flat, side="right")) - 1
        first = int(np.searchsorted(self.pieces.start, self.edges[row]))
        return self.first_row + row, max(0, piece - first), flat - int(self.edges[row])

    def name(self, flat: int) -> str:
        """The id of the sample at a flat position."""
        piece = int(np.searchsorted(self.pieces.start, flat, side="right")) - 1
        if piece < 0 or flat >= self.pieces.end[piece]:
            return "(padding)"
        sample = int(self.pieces.sample[piece])
        return "(unknown)" if sample == UNKNOWN else self.samples.ledger.ids[sample]

    def at(self, flat: int, expected: Any, found: Any, note: str = "") -> Witness:
        """A witness at a flat position."""
        row, segment, column = self.place(flat)
        return Witness(self.name(flat), expected, found, position=column, row=row, segment=segment, note=note)

    def first_in_piece(self, places: Ints) -> list[int]:
        """Of some of `places` (by number, ascending) the first in each piece: one offence a segment."""
        if not places.size:
            return []
        pieces = np.searchsorted(self.pieces.start, self.places[places], side="right")
        return places[np.diff(pieces, prepend=-1) != 0].tolist()  # type: ignore[no-any-return]


def list_names(samples: Samples, chosen: Ints) -> str:
    """The ids of some samples, the first few of those that are known in full; nothing where none is."""
    names = [samples.ledger.ids[sample] for sample in chosen[chosen != UNKNOWN][:MOST_NAMES].tolist()]
    more = len(chosen) - len(names)
    return ", ".join(names) + (f" and {more} more" if names and more else "")


def ranges(start: Ints, end: Ints, chosen: NDArray[np.bool_]) -> Ints:
    """All integers of the chosen ranges `[start, end)`, one after the other."""
    start, size = start[chosen], (end - start)[chosen]
    shift = start - np.cumsum(size) + size
    return np.repeat(shift, size) + np.arange(int(size.sum()), dtype=np.int64)


class Viewer:
    """Finds the true segments of one batch after the other."""

    def __init__(self, samples: Samples, index: SampleIndex, pad_token_id: int) -> None:
        self.samples, self.index, self.pad_token_id = samples, index, pad_token_id
        self._fragments: Fragments | None = None

    def view(self, batch: Batch, packed: Sequence[PackedRow] | None, first_row: int) -> View:
        """A batch beside its samples.

        The true segments are those of the dialect that names most tokens as whole samples; what it names
        otherwise is taken apart by content, so that a wrong dialect is not mistaken for lost samples.

        Args:
            packed: the rows that the batch was made of, where they can be seen.
        """
        found = layouts(batch)
        prefix = prefix_hashes(batch.ids.ravel())
        best = self._best(prefix, found)
        if best is None or not self._complete(prefix, best):
            best = self._best(prefix, [*found, *_guesses(batch, packed)])
        pieces = self._pieces(batch, prefix, cast("Layout", best))
        return View(batch, self.samples, pieces, found, row_edges(batch, packed), first_row)

    def _best(self, prefix: Hashes, found: list[Layout]) -> Layout | None:
        """The layout that names nothing but samples, and most of them; else the one that names most."""
        scores = [(self._complete(prefix, layout), self._recognised(prefix, layout)) for layout in found]
        return found[scores.index(max(scores))] if found else None

    def _recognised(self, prefix: Hashes, layout: Layout) -> int:
        starts, ends = layout.flat
        known = self.index.recognise(prefix, starts, ends)
        return int((ends - starts)[known].sum())

    def _complete(self, prefix: Hashes, layout: Layout) -> bool:
        starts, ends = layout.flat
        return len(starts) > 0 and self._recognised(prefix, layout) == int((ends - starts).sum())

    def _pieces(self, batch: Batch, prefix: Hashes, layout: Layout) -> Pieces:
        ids = batch.ids.ravel()
        pieces = self.index.match(ids, batch.labels.ravel(), prefix, *layout.flat)
        unknown = pieces.sample == UNKNOWN
        regions = _regions(pieces.start[unknown], pieces.end[unknown], batch.width)
        regions += [
            (start, end) for start, end in _gaps(pieces, batch) if (ids[start:end] != self.pad_token_id).any()
        ]
        if not regions:
            return pieces
        edge = _edges(batch.ids, self.pad_token_id)
        return _merge(
            pieces, [piece for region in regions for piece in self._take_apart(batch, *region, edge)]
        )

    def _take_apart(self, batch: Batch, start: int, end: int, edge: NDArray[np.bool_]) -> list[Piece]:
        pieces = [(start, end, UNKNOWN, 0)]
        if not edge[start:end].all() and len(self.samples.ids) <= MOST_TOKENS:
            self._fragments = self._fragments or Fragments(self.samples, self.index)
            pieces = self._fragments.take_apart(batch.ids.ravel(), start, end)
        return [kept for piece in pieces if (kept := self._without_padding(piece, batch, edge))]

    def _without_padding(self, piece: Piece, batch: Batch, edge: NDArray[np.bool_]) -> Piece | None:
        """A piece without the padding in it: runs of one id at a row's edges, or without labels anywhere."""
        start, end, sample, offset = piece
        ids, labelled = batch.ids.ravel(), batch.labels.ravel()[start:end] != IGNORED
        rest = end - start == 1 and labelled.any() and self._pads_with_tokens
        if edge[start:end].all() and not rest:
            return None if sample == UNKNOWN or offset else piece
        if sample != UNKNOWN:
            return piece
        if (ids[start:end] == ids[start]).all() and not labelled.any():
            return None
        first, last = _trimmed(start, end, edge)
        # One such token may be the end of a sample that was too short a part to be recognised.
        keep = end - last == 1 and self._pads_with_tokens
        return first, end if keep else last, sample, offset

    @cached_property
    def _pads_with_tokens(self) -> bool:
        """Whether the padding id stands in samples: then one of it, with a label, may be the rest of one."""
        return bool((self.samples.ids == self.pad_token_id).any())


def _guesses(batch: Batch, packed: Sequence[PackedRow] | None) -> Iterator[Layout]:
    """Layouts that the batch does not name itself: the packer's, and one segment a row."""
    lengths = [row.lengths for row in packed or () if row.lengths is not None]
    if lengths:
        yield from_lengths("packed rows", batch, lengths)
    yield from_lengths("one segment a row", batch, [np.array([batch.width])] * batch.rows)


def row_edges(batch: Batch, packed: Sequence[PackedRow] | None) -> Ints:
    """Where packed rows start: a collator may flatten several into one row of the batch."""
    if packed is None or batch.rows > 1:
        return np.arange(batch.rows) * batch.width
    ends = np.cumsum([len(row.ids) for row in packed], dtype=np.int64)
    edges: Ints = np.minimum(np.concatenate([[0], ends[:-1]]), batch.width)
    return edges


def _gaps(pieces: Pieces, batch: Batch) -> Iterator[tuple[int, int]]:
    """What no segment names, row by row."""
    starts, ends = np.append(0, pieces.end), np.append(pieces.start, batch.ids.size)
    for gap in np.flatnonzero(starts < ends).tolist():
        start, end = int(starts[gap]), int(ends[gap])
        while start < end:
            stop = min(end, (start // batch.width + 1) * batch.width)
            yield start, stop
            start = stop


def _regions(start: Ints, end: Ints, width: int) -> list[tuple[int, int]]:
    """Unknown segments that touch within a row, joined: the border between them may itself be wrong."""
    joined = (start[1:] == end[:-1]) & (start[1:] % width != 0)
    if not start.size:
        return []
    first = start[np.append(True, ~joined)]
    last = end[np.append(~joined, True)]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _edges(ids: Ints, pad_token_id: int) -> NDArray[np.bool_]:
    """bool[B*T], the runs of the padding id at the start and the end of each row."""
    padding = ids == pad_token_id
    tail = np.minimum.accumulate(padding[:, ::-1], axis=1)[:, ::-1]
    head = np.minimum.accumulate(padding, axis=1)
    return (tail | head).ravel()


def _trimmed(start: int, end: int, edge: NDArray[np.bool_]) -> tuple[int, int]:
    """A stretch without the edges of its row."""
    inner = np.flatnonzero(~edge[start:end])
    return (start + int(inner[0]), start + int(inner[-1]) + 1) if inner.size else (start, end)


def _merge(pieces: Pieces, replaced: list[Piece]) -> Pieces:
    kept = pieces.sample != UNKNOWN
    added = np.asarray(replaced, dtype=np.int64).reshape(len(replaced), 4)
    old = (pieces.start, pieces.end, pieces.sample, pieces.offset)
    columns = [np.concatenate([column[kept], new]) for column, new in zip(old, added.T, strict=True)]
    shuffled = np.concatenate([pieces.shuffled[kept], np.zeros(len(added), dtype=np.bool_)])
    order = np.argsort(columns[0], kind="stable")
    start, end, sample, offset = (column[order] for column in columns)
    return Pieces(start, end, sample, offset, shuffled[order])
