"""Every invariant of a block of sound batches at once: each token is compared with its sample, in few passes.

A proof says that there is no offence, or nothing at all; then the invariants look for themselves.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.packing.candidates import Candidates
from pytest_longctx.packing.match import UNKNOWN
from pytest_longctx.packing.segments import find_segments
from pytest_longctx.tokens.sample import IGNORED

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pytest_longctx.packing.audit import Expected
    from pytest_longctx.packing.block import Block
    from pytest_longctx.packing.match import SampleIndex
    from pytest_longctx.packing.segments import Segments
    from pytest_longctx.tokens.ledger import Samples

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class Scratch:
    """Memory for what is expected of one column at a time, used over and over: fresh memory costs a pass."""

    def __init__(self) -> None:
        self._expected = np.empty(0, dtype=np.int32)
        self._flags = np.empty(0, dtype=np.bool_)
        self._steps: NDArray[Any] = np.empty(0, dtype=np.int64)

    def counts(self, segments: Segments) -> bool:
        """Whether positions are 0 at each start and grow by 1 within each segment."""
        found, at = segments.inside("position_ids"), segments.at
        if found[at].any() or (found[at[1:] - 1] < 0).any():
            return False
        # At a start a position cannot be the one before it and 1: that one is not below 0.
        steps = np.subtract(found[1:], found[:-1], out=self.steps(len(found) - 1, found.dtype))
        follows = np.equal(steps, 1, out=self.flags(len(found) - 1))
        return int(np.count_nonzero(follows)) == len(found) - len(at)

    def numbered(self, found: NDArray[Any], segments: Segments, number: Ints) -> bool:
        """Whether a column without padding has one number in each segment, and this one."""
        at = segments.at
        if (found[at] != number).any() or (found[at + segments.size - 1] != number).any():
            return False
        changes = np.not_equal(found[1:], found[:-1], out=self.flags(len(found) - 1))
        return bool(np.count_nonzero(changes) == np.count_nonzero(number[1:] != number[:-1]))

    def numbers(self, size: int) -> NDArray[np.int32]:
        """int32[size], to write into."""
        if len(self._expected) < size:
            self._expected = np.empty(size, dtype=np.int32)
        return self._expected[:size]

    def steps(self, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """int[size] of this type, to write into."""
        if len(self._steps) < size or self._steps.dtype != dtype:
            self._steps = np.empty(size, dtype=dtype)
        return self._steps[:size]

    def flags(self, size: int) -> Flags:
        """bool[size], to write into."""
        if len(self._flags) < size:
            self._flags = np.empty(size, dtype=np.bool_)
        return self._flags[:size]

    def same(self, found: NDArray[Any], expected: NDArray[np.int32]) -> bool:
        """Whether two columns agree in every place."""
        return bool(np.equal(found, expected, out=self.flags(len(found))).all())


class Prover:
    """Proves one block after the other."""

    def __init__(self, samples: Samples, index: SampleIndex, expected: Expected) -> None:
        self.index, self.expected = index, expected
        self.offsets = samples.offsets
        # Plain arrays over the same memory: a slice of a memmap costs ten times as much.
        self.ids, self.labels = np.asarray(samples.ids), np.asarray(samples.labels)
        self.scratch = Scratch()

    def gather(self, column: NDArray[np.int32], segments: Segments) -> NDArray[np.int32]:
        """int32[K], what the samples of the segments have in one of their columns."""
        begins, sizes = self.offsets[segments.sample].tolist(), segments.size.tolist()
        parts = [column[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]
        return np.concatenate(parts, out=self.scratch.numbers(sum(sizes)))

    @cached_property
    def candidates(self) -> Candidates:
        """The samples, to be found by their tokens."""
        return Candidates(self.index)

    @cached_property
    def able(self) -> bool:
        """Whether samples are of ids that need no further look: none below 0 or outside the vocabulary."""
        if not self.index.lengths.any():
            return False
        # Read without a sign, an id below 0 is larger than all others: one pass tells of both.
        highest = self.ids.view(np.uint32).max()
        limit = min(self.expected.vocabulary or 2**31, 2**31)
        return bool(highest < limit and 0 <= self.expected.pad_token_id < limit)

    def prove(self, block: Block) -> Segments | None:
        """The segments of a block without any offence, each counted as delivered; None where not proven."""
        if not self.able:
            return None
        segments = find_segments(block)
        if segments is None:
            return None
        columns = (block.columns["input_ids"], block.columns["labels"])
        segments.sample = self.candidates.take(*columns, segments.start, segments.end)
        if not all(proof(self, segments) for proof in PROOFS):
            self.candidates.give_back(segments.sample)
            return None
        return segments


def _known(prover: Prover, segments: Segments) -> bool:
    """Each segment may be a sample, as long as it should be."""
    sample = segments.sample
    return bool((sample != UNKNOWN).all() and (prover.index.lengths[sample] == segments.size).all())


def _tokens(prover: Prover, segments: Segments) -> bool:
    """Each token is its sample's, and padding is the padding id."""
    expected = prover.gather(prover.ids, segments)
    return prover.scratch.same(segments.inside("input_ids"), expected) and segments.pads_with(
        "input_ids", prover.expected.pad_token_id
    )


def _labels(prover: Prover, segments: Segments) -> bool:
    """Each label is its sample's, -100 at starts of segments and in padding; at a row's start either."""
    expected = prover.gather(prover.labels, segments)
    found = segments.inside("labels")
    at = segments.at[segments.first]
    own, there = expected[at], found[at]
    expected[segments.at] = IGNORED
    expected[at] = np.where(there == own, own, IGNORED)
    return prover.scratch.same(found, expected) and segments.pads_with("labels", IGNORED)


def _positions(prover: Prover, segments: Segments) -> bool:
    """Positions restart with each segment and are 0 in padding; without them segments start their rows."""
    if segments.block.flat("position_ids") is None:
        return len(segments.first) == len(segments.start)
    return prover.scratch.counts(segments) and segments.pads_with("position_ids", 0)


def _indices(prover: Prover, segments: Segments) -> bool:
    """seq_idx numbers the segments of a row from 0; it is not judged here where there is padding."""
    column = segments.block.flat("seq_idx")
    if column is None:
        return True
    return segments.covered is None and prover.scratch.numbered(column, segments, segments.number)


def _mask(prover: Prover, segments: Segments) -> bool:
    """A mask is 0 behind the last segment of each row, and 1 before, or the segment's number from 1."""
    mask = segments.block.flat("attention_mask")
    if mask is None:
        return True
    if segments.covered is not None:
        tokens = int(segments.size.sum())
        stops = segments.rows + segments.filled
        # So many tokens, none of them beyond where the row's tokens would end if they stood at its start.
        if int(np.count_nonzero(segments.covered)) != tokens or not _leads(segments, stops):
            return False
    found = segments.inside("attention_mask")
    if found.dtype == np.bool_ or found.max() == found.min() == 1:
        return True
    return prover.scratch.numbered(found, segments, segments.number + 1)


def _leads(segments: Segments, stops: Ints) -> bool:
    """Whether the padding of each row lies behind its tokens: the mask changes at their end only."""
    covered = segments.covered
    if covered is None:
        return True
    edges = np.zeros(len(covered) + 1, dtype=np.int8)
    edges[segments.rows] += 1
    edges[stops] -= 1
    return bool((covered == np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)).all())


def _longest(_: Prover, segments: Segments) -> bool:
    """No segment is longer than max_length of its batch."""
    members = segments.block.members
    if not members[0].plain.edges:
        return True
    said = [member.plain.longest for member in members]
    return bool((np.maximum.reduceat(segments.size, segments.first_of_member) <= said).all())


def _supervised(_: Prover, segments: Segments) -> bool:
    """Each packed row has a target behind the first token of its batch row."""
    targets, rows = segments.targets, segments.rows
    edges = segments.packed_edges
    stops = np.append(edges[1:], segments.block.size)
    last = np.searchsorted(segments.start, stops) - 1
    # Most samples end with a target; only the other rows are looked through.
    sure = targets[segments.end[last] - 1] & (segments.size[last] > 1)
    sure &= (segments.start[last] >= edges) & (segments.end[last] <= stops)
    for row in np.flatnonzero(~sure).tolist():
        start, stop = int(edges[row]), int(stops[row])
        heads = rows[np.searchsorted(rows, start) : np.searchsorted(rows, stop)]
        if np.count_nonzero(targets[start:stop]) <= np.count_nonzero(targets[heads]):
            return False
    return True


def _divisors(_: Prover, segments: Segments) -> bool:
    """What a trainer divides a batch's loss by is the number of its targets."""
    for member in segments.block.members:
        said = member.delivery.normalizer
        if said is not None and said != segments.targets_of(member):
            return False
    return True


def _offsets(prover: Prover, segments: Segments) -> bool:
    """No kernel's 32-bit offset wraps."""
    stride = prover.expected.row_stride or 1
    return max(member.size for member in segments.block.members) * stride <= 2**31


PROOFS: tuple[Callable[[Prover, Segments], bool], ...] = (
    _known,
    _offsets,
    _mask,
    _tokens,
    _labels,
    _positions,
    _indices,
    _longest,
    _supervised,
    _divisors,
)
