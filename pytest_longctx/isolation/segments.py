"""The samples that a probe packs, and where they lie in the batch that comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_longctx.isolation.errors import IsolationError, VocabularyError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

IdArray: TypeAlias = NDArray[np.int64]

# Longest first, two of equal length, one of a single token; then a single token first and the longest last.
LAYOUTS: tuple[tuple[int, ...], ...] = ((11, 4, 4, 1, 6), (1, 3, 3, 9))
_RESERVED = 4  # low ids are padding and special tokens in most vocabularies


@dataclass(frozen=True, slots=True)
class Place:
    """Where a segment lies: row of the batch and `[start, end)` in tokens."""

    row: int
    start: int
    end: int

    @property
    def tokens(self) -> slice:
        """The segment's tokens within its row."""
        return slice(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Segments:
    """Token ids of the samples to pack, all different, and as many again to change them to."""

    ids: tuple[IdArray, ...]
    other: tuple[IdArray, ...]

    def changed(self, numbers: Collection[int]) -> list[IdArray]:
        """The samples with every token of the numbered ones (from 0) changed."""
        return [self.other[k] if k in numbers else ids for k, ids in enumerate(self.ids)]

    def changed_from_half(self) -> list[IdArray]:
        """The samples with the later half of each one changed; a single token stays."""
        return [
            np.concatenate([ids[: half(len(ids))], other[half(len(ids)) :]])
            for ids, other in zip(self.ids, self.other, strict=True)
        ]

    def joined(self) -> IdArray:
        """All samples in a row, as if they were one."""
        return np.concatenate(self.ids)


def half(length: int) -> int:
    """Tokens of a sample that `changed_from_half` leaves alone."""
    return (length + 1) // 2


def draw_segments(
    lengths: Sequence[int], vocabulary_size: int, seed: int, avoid: Collection[int]
) -> Segments:
    """Samples of these lengths out of distinct ids below `vocabulary_size`, none of them in `avoid`."""
    total = sum(lengths)
    pool = np.setdiff1d(
        np.arange(_RESERVED, vocabulary_size), np.fromiter(avoid, dtype=np.int64, count=len(avoid))
    )
    if len(pool) < 2 * total:
        raise VocabularyError(
            f"a vocabulary of {vocabulary_size} ids is too small for the probe: "
            f"it needs {2 * total} different ids besides special tokens, {len(pool)} are free"
        )
    drawn = np.random.default_rng(seed).permutation(pool)[: 2 * total].astype(np.int64)
    cuts = np.cumsum(lengths)
    ids, other = np.split(drawn[:total], cuts[:-1]), np.split(drawn[total:], cuts[:-1])
    return Segments(tuple(ids), tuple(other))


def locate(input_ids: NDArray[Any], segments: Sequence[IdArray]) -> list[Place]:
    """The place of each segment in `input_ids` (rows x tokens), by its ids; they must be there whole, once.

    A sample given twice must be there twice; its places are given in order.
    """
    places: list[Place] = []
    for number, ids in enumerate(segments):
        rows, starts = np.nonzero(input_ids == ids[0])
        spots = [
            Place(int(row), int(start), int(start) + len(ids))
            for row, start in zip(rows, starts, strict=True)
            if np.array_equal(input_ids[row, start : start + len(ids)], ids)
        ]
        copies = sum(np.array_equal(ids, other) for other in segments)
        if len(spots) != copies:
            raise IsolationError(
                f"the batch holds segment {number} ({len(ids)} tokens) {len(spots)} times, expected {copies} "
                f"and whole: the packer or collator must keep the {len(segments)} samples of the probe "
                f"({', '.join(str(len(s)) for s in segments)} tokens) in their order of tokens"
            )
        places.append(next(spot for spot in spots if spot not in places))
    return places
