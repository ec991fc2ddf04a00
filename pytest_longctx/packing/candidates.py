"""Which sample a span may be, by its length and a few of its tokens. Who asks compares the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.hashing import mixed, prefix_hashes, span_hashes
from pytest_longctx.packing.match import UNKNOWN, ByLabels, exact_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_longctx.packing.hashing import Hashes
    from pytest_longctx.packing.match import SampleIndex

    Ints = NDArray[np.int64]

PROBES = 8
"""Tokens looked at of each span, from its first to its last; equal or nearly equal samples share them."""
BLOCK = 1 << 14
_ALIKE = -2
_STEPS = np.arange(PROBES)[:, None]
_ODD = _STEPS.astype(np.uint64) * np.uint64(2 * 0x9E3779B97F4A7C15 % 2**64) + np.uint64(1)


class Candidates:
    """The samples that should come, by what `PROBES` of their tokens say.

    A sample that has its probes for itself is found by them. Where several share them the whole span is
    hashed, so that equal samples are given out as `SampleIndex.match` gives them out.
    """

    def __init__(self, index: SampleIndex) -> None:
        self.index = index
        samples = index.samples
        wanted = np.flatnonzero(index.lengths > 0)
        keys = np.empty(len(wanted), dtype=np.uint64)
        for begin in range(0, len(wanted), BLOCK):
            block = wanted[begin : begin + BLOCK]
            starts = samples.offsets[block]
            keys[begin : begin + BLOCK] = _probe(samples.ids, starts, starts + index.lengths[block])
        order = np.argsort(keys, kind="stable")
        self.keys, first, count = np.unique(keys[order], return_index=True, return_counts=True)
        self.sample = np.where(count > 1, _ALIKE, wanted[order[first]])
        alike = np.zeros(len(index.lengths), dtype=np.bool_)
        alike[wanted[order[np.repeat(count > 1, count)]]] = True
        self._alike = index.table(index.lengths, alike, exact_hashes)

    def take(self, ids: Ints, labels: Ints, starts: Ints, ends: Ints) -> Ints:
        """int64[S], a sample for each span; counts it. UNKNOWN where there is none."""
        keys = _probe(ids, starts, ends)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        taken = np.where(self.keys[place] == keys, self.sample[place], UNKNOWN)
        alike = np.flatnonzero(taken == _ALIKE)
        delivered = self.index.delivered
        np.add.at(delivered, taken[taken >= 0], 1)
        if alike.size:
            starts, ends = starts[alike], ends[alike]
            hashes = np.concatenate(
                [
                    _span_hash(ids[start:end])
                    for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
                ]
            )
            choose = ByLabels(self.index, labels, starts, ends)
            taken[alike] = self._alike.take(hashes, delivered, choose)
        return taken

    def give_back(self, taken: Ints) -> None:
        """Undo the counting of `take`."""
        np.subtract.at(self.index.delivered, taken[taken != UNKNOWN], 1)


def _probe(ids: NDArray[np.integer], starts: Ints, ends: Ints) -> Hashes:
    """uint64[S], what length and probes of each span say."""
    size = ends - starts
    places = (size - 1) * _STEPS // (PROBES - 1) + starts
    keys: Hashes = np.add.reduce(mixed(ids[places]) * _ODD)
    return keys ^ mixed(size)


def _span_hash(ids: NDArray[np.integer]) -> Hashes:
    return span_hashes(prefix_hashes(ids), np.array([0]), np.array([len(ids)]))
