"""Which sample each segment is: by content, so that shuffled, repeated and equal samples are told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.hashing import prefix_hashes, span_hashes, unordered_hashes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pytest_longctx.packing.hashing import Hashes
    from pytest_longctx.tokens.ledger import Samples

BLOCK_TOKENS = 1 << 20
UNKNOWN = -1


@dataclass(frozen=True)
class Pieces:
    """Stretches of a flattened batch and the sample tokens they carry, P in all, in order of start.

    start, end: int64[P] in the flattened batch. sample: int64[P], UNKNOWN where no sample has these tokens.
    offset: int64[P], the sample token that a piece starts with. shuffled: bool[P], the sample's tokens in
    another order.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    sample: NDArray[np.int64]
    offset: NDArray[np.int64]
    shuffled: NDArray[np.bool_]

    @property
    def known(self) -> NDArray[np.bool_]:
        """bool[P], pieces that carry a sample's tokens in order."""
        return (self.sample != UNKNOWN) & ~self.shuffled


class SampleIndex:
    """Samples by the hash of the tokens that a packer should deliver of them.

    lengths: int64[n], tokens expected of each sample; samples of length 0 are not looked for. `delivered`
    counts how often each sample was seen whole.
    """

    def __init__(self, samples: Samples, lengths: NDArray[np.int64]) -> None:
        self.samples, self.lengths = samples, lengths
        self.wanted = np.flatnonzero(lengths > 0)
        self.delivered = np.zeros(len(lengths), dtype=np.int64)
        self._exact = _Multiset(self._hash(_exact_hashes), self.wanted)
        self._unordered: _Multiset | None = None

    def _hash(self, function: Callable[..., Hashes]) -> Hashes:
        """uint64[wanted], over blocks of samples so that memory stays bounded."""
        starts = self.samples.offsets[self.wanted]
        ends = starts + self.lengths[self.wanted]
        hashes = np.empty(len(self.wanted), dtype=np.uint64)
        begin = 0
        while begin < len(self.wanted):
            base = int(starts[begin])
            stop = max(begin + 1, int(np.searchsorted(ends, base + BLOCK_TOKENS, side="right")))
            ids = self.samples.ids[base : int(ends[stop - 1])]
            hashes[begin:stop] = function(ids, starts[begin:stop] - base, ends[begin:stop] - base)
            begin = stop
        return hashes

    def recognise(
        self, prefix: Hashes, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """bool[S], spans that are a whole sample, by the prefix hashes of a batch; nothing is counted."""
        return self._exact.holds(span_hashes(prefix, starts, ends))

    def match(
        self, ids: NDArray[np.int64], prefix: Hashes, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Pieces:
        """Give each segment its sample and count it; of equal samples the next one that was not seen yet."""
        sample = self._exact.take(span_hashes(prefix, starts, ends), self.delivered)
        shuffled = np.zeros(len(starts), dtype=np.bool_)
        missing = np.flatnonzero(sample == UNKNOWN)
        if missing.size:
            found = self._in_another_order(ids, starts[missing], ends[missing])
            sample[missing], shuffled[missing] = found, found != UNKNOWN
        return Pieces(starts, ends, sample, np.zeros(len(starts), dtype=np.int64), shuffled)

    def _in_another_order(
        self, ids: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        if self._unordered is None:
            self._unordered = _Multiset(self._hash(unordered_hashes), self.wanted)
        return self._unordered.take(unordered_hashes(ids, starts, ends), self.delivered)


def _exact_hashes(ids: NDArray[np.integer], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Hashes:
    return span_hashes(prefix_hashes(ids), starts, ends)


class _Multiset:
    """Hashes to samples, where several samples may have one hash."""

    def __init__(self, hashes: Hashes, samples: NDArray[np.int64]) -> None:
        order = np.argsort(hashes, kind="stable")
        self.samples = samples[order]
        self.keys, self.first, self.count = np.unique(hashes[order], return_index=True, return_counts=True)

    def _group(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        group = np.searchsorted(self.keys, hashes)
        group[group == len(self.keys)] = 0
        return group, (self.keys[group] == hashes) if len(self.keys) else np.zeros(
            len(hashes), dtype=np.bool_
        )

    def holds(self, hashes: Hashes) -> NDArray[np.bool_]:
        return self._group(hashes)[1]

    def take(self, hashes: Hashes, delivered: NDArray[np.int64]) -> NDArray[np.int64]:
        """A sample per hash, int64[S]; counts it in `delivered`. UNKNOWN where no sample has the hash.

        The k-th of equal segments gets the k-th of equal samples; what is left over counts as a repetition of
        the last one.
        """
        taken = np.full(len(hashes), UNKNOWN, dtype=np.int64)
        group, held = self._group(hashes)
        if not held.any():
            return taken
        group = group[held]
        order = np.argsort(group, kind="stable")
        sorted_group = group[order]
        new = np.diff(sorted_group, prepend=-1) != 0
        begins = np.flatnonzero(new)
        rank = np.arange(len(sorted_group)) - np.repeat(begins, np.diff(np.append(begins, len(sorted_group))))
        seen = self._seen(sorted_group[begins], delivered)
        rank += np.repeat(seen, np.diff(np.append(begins, len(sorted_group))))
        rank = np.minimum(rank, self.count[sorted_group] - 1)
        found = np.empty(len(group), dtype=np.int64)
        found[order] = self.samples[self.first[sorted_group] + rank]
        taken[held] = found
        np.add.at(delivered, found, 1)
        return taken

    def _seen(self, groups: NDArray[np.int64], delivered: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many samples of each group were delivered already; they are given out in order."""
        many = self.count[groups] > 1
        seen = (delivered[self.samples[self.first[groups]]] > 0).astype(np.int64)
        for place in np.flatnonzero(many).tolist():
            first, count = self.first[groups[place]], self.count[groups[place]]
            seen[place] = int((delivered[self.samples[first : first + count]] > 0).sum())
        return seen
