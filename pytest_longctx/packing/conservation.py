"""Each admitted sample exactly once: what was lost, repeated, cut, foreign or should not have come."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.match import UNKNOWN
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_longctx.packing.audit import Expected
    from pytest_longctx.packing.view import View
    from pytest_longctx.tokens.ledger import Samples

MOST_TRIED = 10_000
"""Ways to make up one gap that are tried; only where a text repeats itself there are as many."""


@dataclass
class Coverage:
    """Which tokens of which samples came in pieces, over all batches; whole samples are counted elsewhere.

    parts: per sample the token spans that came; remnants: pieces that no sample was found for, by content.
    foreign: tokens that no sample has; altered, missing: samples that lost tokens ahead of others that came,
    and of which none came.
    """

    samples: Samples
    lengths: NDArray[np.int64]
    parts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    remnants: dict[bytes, list[Witness]] = field(default_factory=dict)
    foreign: int = 0
    altered: int = 0
    missing: int = 0

    @property
    def other_texts(self) -> int:
        """Samples that came with other tokens than their own: not merely cut, lost, or beside others."""
        foreign = 2 * self.foreign >= int(self.lengths.sum())
        return self.altered + (self.missing if foreign else 0)

    def add(self, view: View) -> None:
        """Take in one batch."""
        pieces = view.pieces
        known = pieces.sample != UNKNOWN
        for piece in np.flatnonzero(~known).tolist():
            self._unknown(view, int(pieces.start[piece]), int(pieces.end[piece]))
        sample, first = pieces.sample[known], pieces.offset[known]
        size = (pieces.end - pieces.start)[known]
        for piece in np.flatnonzero((first != 0) | (size != self.lengths[sample])).tolist():
            span = (int(first[piece]), int(first[piece] + size[piece]))
            self.parts.setdefault(int(sample[piece]), []).append(span)

    def _unknown(self, view: View, start: int, end: int) -> None:
        self.foreign += end - start
        row, segment, column = view.place(start)
        witness = Witness(
            f"row {row}",
            "tokens of a sample",
            f"{end - start:,} tokens that no sample has",
            position=column,
            row=row,
            segment=segment,
        )
        self.remnants.setdefault(_content(view.batch.ids.ravel()[start:end]), []).append(witness)

    def spare(self, sample: int, delivered: int) -> None:
        """Set aside what came of a sample beside its tokens: it may be the same text of another one."""
        parts = sorted(self.parts.get(sample, []), key=lambda part: (part[0], -part[1]))
        starts = {start for start, _ in parts}
        kept: list[tuple[int, int]] = []
        at = 0
        for start, end in parts:
            # Equal samples may be cut elsewhere: what goes on where the last piece ends comes first.
            if delivered or end <= at or (start < at and at in starts):
                self._set_aside(sample, start, end, delivered)
            else:
                kept.append((start, end))
            at = max(at, end)
        self.parts[sample] = kept

    def _set_aside(self, sample: int, start: int, end: int, delivered: int) -> None:
        tokens = f"{end - start:,} tokens"
        found = f"once and {tokens} of it again" if delivered else f"{tokens} twice"
        expected = f"{int(self.lengths[sample]):,} tokens once"
        witness = Witness(self.samples.ledger.ids[sample], expected, found)
        self.remnants.setdefault(_content(self.samples[sample].ids[start:end]), []).append(witness)

    def settle(self, sample: int) -> list[tuple[int, int]]:
        """The gaps between a sample's pieces, which do not overlap; the same tokens, set aside, close one."""
        parts = sorted(self.parts.get(sample, []))
        ends = [0, *(end for _, end in parts)]
        starts = [*(start for start, _ in parts), int(self.lengths[sample])]
        ids = self.samples[sample].ids
        gaps = zip(ends, starts, strict=True)  # of no tokens where pieces touch, which nothing has to close
        return [(a, b) for a, b in gaps if not self._close(_content(ids[a:b]))]

    def _close(self, content: bytes) -> bool:
        """Take out what is set aside and makes up this content, rather in few long pieces than in many."""
        ways, path = [(0, b"")], [b""]
        tried: set[int] = set()
        while ways and len(tried) < MOST_TRIED:
            place, piece = ways.pop()
            path[place:] = [piece]
            at = sum(map(len, path))
            if at == len(content):
                for piece in path[1:]:
                    self.remnants[piece].pop()
                return True
            way = sum(map(hash, path))  # the same for these pieces in another order
            if way in tried:
                continue
            tried.add(way)
            for size in self.sizes:
                piece = content[at : at + size]
                if (waiting := self.remnants.get(piece)) and path.count(piece) < len(waiting):
                    ways.append((len(path), piece))
        return False

    @cached_property
    def sizes(self) -> list[int]:
        """The lengths of what is set aside, in bytes, short ones first; to be asked once all is."""
        return sorted(set(map(len, self.remnants)))


def _content(ids: NDArray[np.integer]) -> bytes:
    """Token ids as bytes; samples hold narrower integers than batches."""
    return ids.astype(np.int64).tobytes()


def _overlap(parts: list[tuple[int, int]]) -> int:
    repeated, at = 0, 0
    for start, end in sorted(parts):
        repeated += max(0, min(at, end) - start)
        at = max(at, end)
    return repeated


def conservation(
    samples: Samples, expected: Expected, delivered: NDArray[np.int64], coverage: Coverage
) -> Iterator[Witness]:
    """Every offence against "each admitted sample exactly once", in the order of the samples."""
    names, parts = samples.ledger.ids, coverage.parts
    for sample in list(parts):
        if expected.lengths[sample]:
            coverage.spare(sample, int(delivered[sample]))
    asked = expected.fed.copy()
    asked[list(parts)] = True
    for sample in np.flatnonzero((delivered > 1) | asked & (delivered == 0)).tolist():
        if not expected.lengths[sample]:
            yield _of_rejected(names[sample], parts.get(sample, []))
        elif reason := _of_admitted(sample, int(delivered[sample]), coverage):
            yield Witness(names[sample], f"{int(expected.lengths[sample]):,} tokens once", reason)
    yield from chain.from_iterable(coverage.remnants.values())


def _of_rejected(name: str, parts: list[tuple[int, int]]) -> Witness:
    note = "rejected by the window"
    if not parts:
        return Witness(name, "to be counted", "dropped without a count", note=note)
    tokens = sum(end - start for start, end in parts)
    return Witness(name, "no token", f"{tokens:,} tokens in a batch", note=note)


def _of_admitted(sample: int, delivered: int, coverage: Coverage) -> str:
    parts = coverage.parts.get(sample, [])
    if delivered:
        return f"{delivered} times"
    if repeated := _overlap(parts):
        return f"{repeated:,} tokens twice"
    planned = int(coverage.lengths[sample])
    if (last := max((end for _, end in parts), default=0)) > planned:
        return f"not cut, {last - planned:,} tokens beyond the window"
    gaps = coverage.settle(sample)
    if not gaps:
        return ""
    lost = sum(end - start for start, end in gaps)
    coverage.missing += not parts
    coverage.altered += bool(parts) and gaps[0][1] < planned
    return "lost" if not parts else f"cut, {lost:,} tokens lost"
