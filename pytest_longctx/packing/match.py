"""Which sample each segment is: by content, so that shuffled, repeated and equal samples are told apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.hashing import prefix_hashes, span_hashes, unordered_hashes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pytest_longctx.packing.hashing import Hashes
    from pytest_longctx.tokens.ledger import Samples

    Ints = NDArray[np.int64]

BLOCK_TOKENS = 1 << 20
UNKNOWN = -1


@dataclass(frozen=True)
class Pieces:
    """Stretches of a flattened batch and the sample tokens they carry, P in all, in order of start.

    start, end: int64[P] in the flattened batch. sample: int64[P], UNKNOWN where no sample has these tokens.
    offset: int64[P], the sample token that a piece starts with. shuffled: bool[P], the sample's tokens in
    another order.
    """

    start: Ints
    end: Ints
    sample: Ints
    offset: Ints
    shuffled: NDArray[np.bool_]

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """bool[P], pieces that carry a sample's tokens in order."""
        known: NDArray[np.bool_] = (self.sample != UNKNOWN) & ~self.shuffled
        return known


class SampleIndex:
    """Samples by the hash of the tokens that a packer should deliver of them.

    lengths: int64[n], tokens expected of each sample; samples of length 0 should not come. Samples that came
    uncut though they should not have, or that were cut at `capacity`, are recognised as well. `delivered`
    counts how often each sample was seen as expected.
    """

    def __init__(self, samples: Samples, lengths: Ints, capacity: int) -> None:
        self.samples, self.lengths = samples, lengths
        self.delivered = np.zeros(len(lengths), dtype=np.int64)
        total = np.diff(samples.offsets)
        cut = np.minimum(total, capacity)
        self._exact = self._table(lengths, lengths > 0, _exact_hashes)
        self._others = [
            (self._table(total, total != lengths, _exact_hashes), np.zeros_like(self.delivered)),
            (
                self._table(cut, (cut != lengths) & (cut != total), _exact_hashes),
                np.zeros_like(self.delivered),
            ),
        ]
        self._whole_lengths = np.unique(lengths[lengths > 0])
        self._unordered: _Multiset | None = None

    def _table(self, lengths: Ints, chosen: NDArray[np.bool_], function: Callable[..., Hashes]) -> _Multiset:
        """The first tokens of the chosen samples; hashed block by block so that memory stays bounded."""
        wanted = np.flatnonzero(chosen)
        starts = self.samples.offsets[wanted]
        ends = starts + lengths[wanted]
        hashes = np.empty(len(wanted), dtype=np.uint64)
        begin = 0
        while begin < len(wanted):
            base = int(starts[begin])
            stop = max(begin + 1, int(np.searchsorted(ends, base + BLOCK_TOKENS, side="right")))
            ids = self.samples.ids[base : int(ends[stop - 1])]
            hashes[begin:stop] = function(ids, starts[begin:stop] - base, ends[begin:stop] - base)
            begin = stop
        return _Multiset(hashes, wanted)

    def recognise(self, prefix: Hashes, starts: Ints, ends: Ints) -> NDArray[np.bool_]:
        """bool[S], spans that are a whole or cut sample; prefix: the batch's hashes. Nothing is counted."""
        hashes = span_hashes(prefix, starts, ends)
        found = self._exact.holds(hashes)
        for table, _ in self._others:
            found |= table.holds(hashes)
        return found

    def look_up(self, ids: Ints, lengths: Ints) -> Ints:
        """The sample of each segment of a row, UNKNOWN where there is none; nothing is counted."""
        ends = np.cumsum(lengths)
        hashes = span_hashes(prefix_hashes(ids), ends - lengths, ends)
        found = np.full(len(hashes), UNKNOWN, dtype=np.int64)
        for table in (self._exact, *(table for table, _ in self._others)):
            missing = np.flatnonzero(found == UNKNOWN)
            found[missing] = table.take(hashes[missing], np.zeros_like(self.delivered))
        return found

    def match(self, ids: Ints, prefix: Hashes, starts: Ints, ends: Ints) -> Pieces:
        """Give each segment its sample and count it; of equal samples the next one that was not seen yet."""
        hashes = span_hashes(prefix, starts, ends)
        sample = self._exact.take(hashes, self.delivered)
        shuffled = np.zeros(len(starts), dtype=np.bool_)
        for table, seen in self._others:
            missing = np.flatnonzero(sample == UNKNOWN)
            sample[missing] = table.take(hashes[missing], seen)
        missing = np.flatnonzero(sample == UNKNOWN)
        if missing.size:
            found = self._in_another_order(ids, starts[missing], ends[missing])
            sample[missing], shuffled[missing] = found, found != UNKNOWN
        return Pieces(starts, ends, sample, np.zeros(len(starts), dtype=np.int64), shuffled)

    def _in_another_order(self, ids: Ints, starts: Ints, ends: Ints) -> Ints:
        if self._unordered is None:
            self._unordered = self._table(self.lengths, self.lengths > 0, unordered_hashes)
        return self._unordered.take(unordered_hashes(ids, starts, ends), self.delivered)

    def longest_whole(self, prefix: Hashes, at: int, size: int) -> int:
        """The longest sample that stands whole at `at`, rather one that was not seen; else UNKNOWN."""
        lengths = self._whole_lengths[: np.searchsorted(self._whole_lengths, size - at, side="right")]
        starts = np.full(len(lengths), at, dtype=np.int64)
        hashes = span_hashes(prefix, starts, starts + lengths)
        held = hashes[self._exact.holds(hashes)][::-1]
        found = [self._exact.next_of(one, self.delivered) for one in held]
        fresh = [sample for sample in found if not self.delivered[sample]]
        return next(iter(fresh or found), UNKNOWN)

    def is_whole(self, prefix: Hashes, at: int, size: int, sample: int) -> bool:
        """Whether this sample stands whole at `at`."""
        length = int(self.lengths[sample])
        if not 0 < length <= size - at:
            return False
        hashes = span_hashes(prefix, np.array([at]), np.array([at + length]))
        return bool(self._exact.holds(hashes)[0] and self._exact.has(hashes[0], sample))


def _exact_hashes(ids: NDArray[np.integer], starts: Ints, ends: Ints) -> Hashes:
    return span_hashes(prefix_hashes(ids), starts, ends)


class _Multiset:
    """Hashes to samples, where several samples may have one hash."""

    def __init__(self, hashes: Hashes, samples: Ints) -> None:
        order = np.argsort(hashes, kind="stable")
        self.samples = samples[order]
        self.keys, self.first, self.count = np.unique(hashes[order], return_index=True, return_counts=True)

    def _group(self, hashes: Hashes) -> tuple[Ints, NDArray[np.bool_]]:
        if not len(self.keys):
            return np.zeros(len(hashes), dtype=np.int64), np.zeros(len(hashes), dtype=np.bool_)
        group = np.minimum(np.searchsorted(self.keys, hashes), len(self.keys) - 1)
        return group, self.keys[group] == hashes

    def holds(self, hashes: Hashes) -> NDArray[np.bool_]:
        return self._group(hashes)[1]

    def _members(self, group: int) -> Ints:
        return self.samples[self.first[group] : self.first[group] + self.count[group]]

    def has(self, one: np.uint64, sample: int) -> bool:
        return sample in self._members(int(np.searchsorted(self.keys, one)))

    def next_of(self, one: np.uint64, delivered: Ints) -> int:
        """The first of equal samples that was not seen, else the last one; `one` is a hash that is held."""
        members = self._members(int(np.searchsorted(self.keys, one)))
        fresh = members[delivered[members] == 0]
        return int(fresh[0] if fresh.size else members[-1])

    def take(self, hashes: Hashes, delivered: Ints) -> Ints:
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
        begins = np.flatnonzero(np.diff(sorted_group, prepend=-1) != 0)
        sizes = np.diff(np.append(begins, len(sorted_group)))
        seen = self._seen(sorted_group[begins], delivered)
        rank = np.arange(len(sorted_group)) + np.repeat(seen - begins, sizes)
        rank = np.minimum(rank, self.count[sorted_group] - 1)
        found = np.empty(len(group), dtype=np.int64)
        found[order] = self.samples[self.first[sorted_group] + rank]
        taken[held] = found
        np.add.at(delivered, found, 1)
        return taken

    def _seen(self, groups: Ints, delivered: Ints) -> Ints:
        """How many samples of each group were delivered already; they are given out in order."""
        many = self.count[groups] > 1
        seen = (delivered[self.samples[self.first[groups]]] > 0).astype(np.int64)
        for place in np.flatnonzero(many).tolist():
            seen[place] = int((delivered[self._members(int(groups[place]))] > 0).sum())
        return seen
