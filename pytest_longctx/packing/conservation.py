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


@dataclass
class Coverage:
    """Which tokens of which samples came in pieces, over all batches; whole samples are counted elsewhere.

    parts: per sample the token spans that came; remnants: pieces that no sample was found for, by content.
    """

    samples: Samples
    lengths: NDArray[np.int64]
    parts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    remnants: dict[bytes, list[Witness]] = field(default_factory=dict)

    def add(self, view: View) -> None:
        """Take in one batch."""
        pieces = view.pieces
        size = pieces.end - pieces.start
        expected = np.where(pieces.sample == UNKNOWN, -1, self.lengths[pieces.sample])
        partial = (pieces.offset != 0) | (size != expected)
        for piece in np.flatnonzero(partial & ~pieces.shuffled).tolist():
            sample, offset = int(pieces.sample[piece]), int(pieces.offset[piece])
            if sample == UNKNOWN:
                self._unknown(view, int(pieces.start[piece]), int(pieces.end[piece]))
            else:
                self.parts.setdefault(sample, []).append((offset, offset + int(size[piece])))

    def _unknown(self, view: View, start: int, end: int) -> None:
        row, segment, column = view.place(start)
        witness = Witness(
            f"row {row}",
            "tokens of a sample",
            f"{end - start:,} tokens that no sample has",
            position=column,
            row=row,
            segment=segment,
        )
        content = view.batch.ids.ravel()[start:end].astype(np.int32).tobytes()
        self.remnants.setdefault(content, []).append(witness)

    def spare(self, sample: int, delivered: int) -> None:
        """Set aside what came of a sample beside its tokens: it may be the same text of another one."""
        kept: list[tuple[int, int]] = []
        at = 0
        for start, end in sorted(self.parts.get(sample, []), key=lambda part: (part[0], -part[1])):
            if delivered or end <= at:
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
        self.remnants.setdefault(self.samples[sample].ids[start:end].tobytes(), []).append(witness)

    def settle(self, sample: int) -> list[tuple[int, int]]:
        """The gaps in a sample's tokens; the same tokens, set aside, close one."""
        gaps = _gaps(self.parts.get(sample, []), int(self.lengths[sample]))
        ids = self.samples[sample].ids
        return [(a, b) for a, b in gaps if not self._close(ids[a:b].tobytes())]

    def _close(self, content: bytes) -> bool:
        """Take out what is set aside and makes up this content, in one piece or in several."""
        for size in sorted((size for size in self.sizes if size <= len(content)), reverse=True):
            waiting = self.remnants.get(content[:size])
            if not waiting:
                continue
            taken = waiting.pop()  # before the rest is looked for, which may be of the same content
            if size == len(content) or self._close(content[size:]):
                return True
            waiting.append(taken)
        return False

    @cached_property
    def sizes(self) -> set[int]:
        """The lengths of what is set aside, in bytes; to be asked once all is."""
        return set(map(len, self.remnants))


def _gaps(parts: list[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    gaps, at = [], 0
    for start, end in sorted(parts):
        if start > at:
            gaps.append((at, start))
        at = max(at, end)
    return [*gaps, (at, length)] if at < length else gaps


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
    names = samples.ledger.ids
    simple = (delivered == 1) & (expected.lengths > 0)
    simple[list(coverage.parts)] = False
    unfed = ~expected.fed & (delivered == 0)
    unfed[list(coverage.parts)] = False
    for sample in list(coverage.parts):
        if expected.lengths[sample]:
            coverage.spare(sample, int(delivered[sample]))
    for sample in np.flatnonzero(~simple & ~unfed).tolist():
        if expected.lengths[sample] == 0:
            yield _of_rejected(names[sample], coverage.parts.get(sample, []))
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
    if delivered > 1:
        return f"{delivered} times"
    if delivered == 1:
        return ""
    if repeated := _overlap(parts):
        return f"{repeated:,} tokens twice"
    planned = int(coverage.lengths[sample])
    if (last := max((end for _, end in parts), default=0)) > planned:
        return f"not cut, {last - planned:,} tokens beyond the window"
    gaps = coverage.settle(sample)
    if not gaps:
        return ""
    lost = sum(end - start for start, end in gaps)
    return "lost" if not parts else f"cut, {lost:,} tokens lost"
