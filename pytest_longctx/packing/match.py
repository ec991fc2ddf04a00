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
    Choose = Callable[[Ints, Ints, Ints], Ints]

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
        self.capacity = capacity
        self._differ: dict[int, bool] = {}

    @cached_property
    def _exact(self) -> _Multiset:
        """The samples as they should come; none of no tokens, so that no empty span is one."""
        return self.table(self.lengths, self.lengths > 0, exact_hashes)

    @cached_property
    def _others(self) -> list[tuple[_Multiset, Ints]]:
        """Whole samples that should not come whole, and those cut at the capacity; each with its counts.

        Where a sample should be cut at the capacity it stands in the table of those as they should come, too,
        which is asked first.
        """
        total = np.diff(self.samples.offsets)
        cut = np.minimum(total, self.capacity)
        kinds = ((total, total > self.lengths), (cut, total > self.capacity))
        return [
            (self.table(lengths, chosen, exact_hashes), np.zeros_like(self.delivered))
            for lengths, chosen in kinds
        ]

    @cached_property
    def _unordered(self) -> _Multiset:
        return self.table(self.lengths, self.lengths > 0, unordered_hashes)

    @cached_property
    def _whole_lengths(self) -> Ints:
        return np.unique(self.lengths)

    def table(self, lengths: Ints, chosen: NDArray[np.bool_], function: Callable[..., Hashes]) -> _Multiset:
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

    def labels_of(self, sample: int) -> NDArray[np.int32]:
        """The labels of a sample behind its first, as far as it is expected."""
        begin = int(self.samples.offsets[sample])
        return self.samples.labels[begin + 1 : begin + int(self.lengths[sample])]

    def labels_differ(self, members: Ints) -> bool:
        """Whether samples of equal ids have other labels; found out once for each such group."""
        first = int(members[0])
        if first not in self._differ:
            kinds = {self.labels_of(sample).tobytes() for sample in members.tolist()}
            self._differ[first] = len(kinds) > 1
        return self._differ[first]

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

    def match(self, ids: Ints, labels: Ints, prefix: Hashes, starts: Ints, ends: Ints) -> Pieces:
        """Give each segment its sample and count it; of equal samples the next one that was not seen yet.

        Samples of equal ids may have other labels: then a segment is the one whose labels it has.
        """
        hashes = span_hashes(prefix, starts, ends)
        sample = self._exact.take(hashes, self.delivered, ByLabels(self, labels, starts, ends))
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
        if length > size - at:
            return False
        hashes = span_hashes(prefix, np.array([at]), np.array([at + length]))
        return bool(self._exact.holds(hashes)[0] and self._exact.has(hashes[0], sample))


def exact_hashes(ids: NDArray[np.integer], starts: Ints, ends: Ints) -> Hashes:
    """uint64[S], the hash of each span of some ids."""
    return span_hashes(prefix_hashes(ids), starts, ends)


class ByLabels:
    """Tells samples of equal ids apart by their labels, where these differ; the first label may be masked."""

    def __init__(self, index: SampleIndex, labels: Ints, starts: Ints, ends: Ints) -> None:
        self.index, self.labels, self.starts, self.ends = index, labels, starts, ends

    def __call__(self, segments: Ints, fresh: Ints, members: Ints) -> Ints:
        """The samples in the order in which the segments get them; the fresh ones where labels tell nothing.

        A segment is a fresh sample whose labels it has. The other segments get the fresh ones that are left,
        and then one again, of their labels if there is one.
        """
        if not self.index.labels_differ(members):
            return fresh
        left, again = fresh.tolist(), members[::-1].tolist()
        given = np.full(len(segments), UNKNOWN, dtype=np.int64)
        for place, segment in enumerate(segments.tolist()):
            given[place] = sample = self._alike(segment, left, UNKNOWN)
            if sample != UNKNOWN:
                left.remove(sample)
        for place in np.flatnonzero(given == UNKNOWN).tolist():
            given[place] = left.pop(0) if left else self._alike(int(segments[place]), again, again[0])
        return given

    def _alike(self, segment: int, samples: list[int], other: int) -> int:
        """The first of some samples whose labels the segment has, `other` where there is none."""
        found = self.labels[self.starts[segment] + 1 : self.ends[segment]]
        same = (sample for sample in samples if np.array_equal(self.index.labels_of(sample), found))
        return next(same, other)


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

    def take(self, hashes: Hashes, delivered: Ints, choose: Choose | None = None) -> Ints:
        """A sample per hash, int64[S]; counts it in `delivered`. UNKNOWN where no sample has the hash.

        Of equal samples the next one that was not seen yet is taken, the last one again when all were.

        Args:
            choose: of several samples with one hash, which one a segment rather is.
        """
        taken = np.full(len(hashes), UNKNOWN, dtype=np.int64)
        group, held = self._group(hashes)
        if not held.any():
            return taken
        several = held & (self.count[group] > 1)
        for number in np.unique(group[several]).tolist():
            segments = np.flatnonzero(several & (group == number))
            taken[segments] = self._give_out(number, segments, delivered, choose)
        alone = held & ~several
        taken[alone] = self.samples[self.first[group[alone]]]
        np.add.at(delivered, taken[alone], 1)
        return taken

    def _give_out(self, group: int, segments: Ints, delivered: Ints, choose: Choose | None) -> Ints:
        """Samples of one hash for segments of this hash; counts them."""
        members = self._members(group)
        fresh = members[delivered[members] == 0]
        if choose is not None:
            fresh = choose(segments, fresh, members)
        given = np.concatenate([fresh, np.full(len(segments), members[-1])])[: len(segments)]
        np.add.at(delivered, given, 1)
        return given
