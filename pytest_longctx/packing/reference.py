"""Reference packers: exact first-fit decreasing and best-fit decreasing.

Both plan on the histogram of lengths, so that planning costs the same whatever the number of samples is;
only the last step, which gives every sample its bin, is linear in them and pure numpy.
Ties go by input order: of two samples of one length the earlier is placed first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pytest_longctx.lengths import Int64Array, IntArray, count_lengths, integers, is_dense

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Int32Array = npt.NDArray[np.int32]

_BLOCK = 1 << 18  # samples sorted at once: keys, order and ranks of a block stay in the cache
_SCRATCH = 1 << 24  # bytes, more than any array of a block takes and below glibc's bound of 32 MiB


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Which bin each sample went to. Bins are numbered in opening order."""

    bins: Int32Array  # int32[n], bin of each sample
    count: int  # number of bins
    capacity: int  # tokens a bin can hold
    lengths: IntArray  # int[n], tokens of each sample

    @property
    def utilization(self) -> float:
        """Share of the bins' capacity that is filled, 0.0 when there is no bin."""
        if not self.count:
            return 0.0
        return int(self.lengths.sum(dtype=np.int64)) / (self.count * self.capacity)

    def rows(self) -> tuple[Int64Array, Int64Array]:
        """Return `offsets` int64[count + 1] and `samples` int64[n].

        `samples[offsets[b]:offsets[b + 1]]` are the samples of bin b in placement order: longest first,
        ties by input order.
        """
        samples = np.zeros(0, np.int64)
        if self.count:
            order = _stable_order(self.lengths.max() - self.lengths).astype(np.int32)  # as wide as `bins`
            samples = order[_stable_order(self.bins[order])].astype(np.int64)
        offsets = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(self.bins, minlength=self.count), out=offsets[1:])
        return offsets, samples


def first_fit_decreasing(lengths: Sequence[int] | IntArray, capacity: int) -> Packing:
    """Pack each sample, longest first, into the first bin opened that has room for it.

    `lengths` are integers from 1 to `capacity`; ValueError names the first that is not. A bin takes from what
    the bins before it left over, always the longest that fits; bins of one pattern are planned at once.
    """
    return _pack(lengths, capacity, _plan_first_fit)


def best_fit_decreasing(lengths: Sequence[int] | IntArray, capacity: int) -> Packing:
    """Pack each sample, longest first, into the fullest bin that has room for it.

    Of bins with equal room the one that has had it for longest is taken. So does the strategy `bfd` of
    `trl.data_utils.pack_dataset` within one map batch. Lengths as for `first_fit_decreasing`.
    """
    return _pack(lengths, capacity, _plan_best_fit)


def checked_lengths(lengths: Sequence[int] | IntArray, capacity: int) -> IntArray:
    """Return `lengths` as an array, or raise ValueError naming the first that cannot be packed."""
    checked = integers(lengths, "lengths")
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1 token, not {capacity}")
    if not checked.size or (int(checked.min()) >= 1 and int(checked.max()) <= capacity):
        return checked
    index = int(np.argmax((checked < 1) | (checked > capacity)))
    length = int(checked[index])
    if length < 1:
        raise ValueError(f"length {length} at index {index}: a sample has at least 1 token")
    raise ValueError(f"length {length} at index {index} exceeds the capacity of {capacity} tokens")


class _Runs:
    """A plan: each run puts `each` samples of one length into `bins` consecutive bins from `first` on.

    Runs of one length stand in the order in which their samples are placed; `size` is an index into the
    distinct lengths.
    """

    def __init__(self) -> None:
        self._numbers = array("q")
        self.count = 0  # number of bins

    def add(self, size: int, first: int, bins: int, each: int) -> None:
        self._numbers.extend((size, first, bins, each))

    def bin_sequence(self) -> Int32Array:
        """Return the bins of all samples in placement order: longest first, ties by input order."""
        size, *plan = np.frombuffer(self._numbers, np.int64).reshape(-1, 4).T
        order = np.argsort(-size, kind="stable")
        first, bins, each = (column[order] for column in plan)
        ends = np.cumsum(bins * each)
        sequence = np.empty(int(ends[-1]), np.int32)
        cuts = np.searchsorted(ends, np.arange(_BLOCK, ends[-1], _BLOCK)) + 1
        for start, stop in pairwise(np.unique([0, *cuts, ends.size])):
            run = slice(start, stop)
            begin = ends[start - 1] if start else 0
            sequence[begin : ends[stop - 1]] = _expand(first[run], bins[run], each[run])
        return sequence


def _expand(first: Int64Array, bins: Int64Array, each: Int64Array) -> Int32Array:
    """Return, run after run, `first`, `first` + 1, … (`bins` of them), every one `each` times."""
    starts = np.cumsum(bins) - bins
    consecutive = np.arange(int(bins.sum())) + np.repeat(first - starts, bins)
    return np.repeat(consecutive.astype(np.int32), np.repeat(each, bins))


def _pack(
    lengths: Sequence[int] | IntArray,
    capacity: int,
    plan: Callable[[list[int], list[int], int], _Runs],
) -> Packing:
    checked = checked_lengths(lengths, capacity)
    values, counts = count_lengths(checked)
    if not values.size:
        return Packing(np.zeros(0, np.int32), 0, capacity, checked)
    # Freeing one large array keeps glibc from returning each block's scratch memory to the system, which
    # would cost more than all the arithmetic.
    np.empty(_SCRATCH, np.uint8)
    runs = plan(values.tolist(), counts.tolist(), capacity)
    bins = _assign(checked, values, counts, runs.bin_sequence())
    return Packing(bins, runs.count, capacity, checked)


def _plan_first_fit(values: list[int], counts: list[int], capacity: int) -> _Runs:
    sizes, left = [0, *values], [0, *counts]  # index 0 stands for "no length fits"
    below = list(range(len(sizes)))  # union-find: leads to the nearest length at or below with samples left

    def longest_left(index: int) -> int:
        while below[index] != index:
            below[index] = index = below[below[index]]
        return index

    runs = _Runs()
    longest = len(sizes) - 1
    while longest:
        pattern, room, index = [], capacity, longest
        repeats = left[longest]
        while (
            index
        ):  # `min` as a call, or `longest_left` without need, would make planning half as fast again
            size, samples = sizes[index], left[index]
            each = room // size
            if each > samples:
                each = samples
            if samples // each < repeats:
                repeats = samples // each
            pattern.append((index, each))
            room -= each * size
            index = bisect_right(sizes, room, 0, index) - 1
            if below[index] != index:
                index = longest_left(index)
        for index, each in pattern:
            runs.add(index, runs.count, repeats, each)
            left[index] -= each * repeats
            if not left[index]:
                below[index] = index - 1
        runs.count += repeats
        longest = longest_left(longest)
    return runs


def _plan_best_fit(values: list[int], counts: list[int], capacity: int) -> _Runs:
    runs, rooms = _Runs(), _Rooms()
    for index in range(len(values) - 1, -1, -1):
        size, left = values[index], counts[index]
        while left:
            room = rooms.least(size) or capacity
            each = room // size
            wanted = -(-left // each)
            if room < capacity:
                first, number = rooms.take(room, wanted)
            else:
                first, number = runs.count, wanted
                runs.count += number
            # A bin that takes one sample has now the least room that fits, so it takes the next ones too.
            full = min(number, left // each)
            rest = left - full * each if full < number else 0
            for start, bins, samples in ((first, full, each), (first + full, number - full, rest)):
                if bins:
                    runs.add(index, start, bins, samples)
                    rooms.put(room - samples * size, start, bins)
            left -= full * each + rest
    return runs


class _Rooms:
    """Bins that are not full, by their room. Of equal rooms those that came first are taken first."""

    def __init__(self) -> None:
        self._ascending: list[int] = []
        self._queues: dict[int, deque[tuple[int, int]]] = {}  # room → runs of bins (first, number)

    def least(self, size: int) -> int:
        """Return the least room of at least `size`, 0 when there is none."""
        place = bisect_left(self._ascending, size)
        return self._ascending[place] if place < len(self._ascending) else 0

    def put(self, room: int, first: int, number: int) -> None:
        if not room:
            return
        if room not in self._queues:
            insort(self._ascending, room)
            self._queues[room] = deque()
        self._queues[room].append((first, number))

    def take(self, room: int, wanted: int) -> tuple[int, int]:
        """Remove up to `wanted` consecutive bins of this room."""
        queue = self._queues[room]
        first, number = queue.popleft()
        if number > wanted:
            queue.appendleft((first + wanted, number - wanted))
        elif not queue:
            del self._queues[room], self._ascending[bisect_left(self._ascending, room)]
        return first, min(number, wanted)


def _assign(lengths: IntArray, values: Int64Array, counts: Int64Array, sequence: Int32Array) -> Int32Array:
    """Give each sample its bin from `sequence`, which is ordered by length, longest first, then input."""
    dense = is_dense(int(values[-1]), lengths.size)
    keys = values if dense else np.arange(values.size)
    number = int(keys[-1]) + 1
    next_rank = np.zeros(number, np.int64)  # for each key, the place in `sequence` of its next sample
    next_rank[keys] = lengths.size - np.cumsum(counts)
    bins = np.empty(lengths.size, np.int32)
    size = max(_BLOCK, number)
    places = np.arange(min(size, lengths.size))
    for start in range(0, lengths.size, size):
        block = lengths[start : start + size]
        block = block if dense else np.searchsorted(values, block)
        in_block = np.bincount(block, minlength=number)
        shift = next_rank - (np.cumsum(in_block) - in_block)
        next_rank += in_block
        ranks = np.repeat(shift, in_block)
        ranks += places[: block.size]
        bins[start : start + size][_stable_order(block)] = sequence[ranks]
    return bins


def _stable_order(keys: IntArray) -> Int64Array:
    """Sort stably by keys ≥ 0, in passes of 16 bits: numpy sorts 16-bit integers by radix."""
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    highest, shift = int(keys.max()), 16
    while highest >> shift:
        digits = (keys >> shift).astype(np.uint16)[order]
        order = order[np.argsort(digits, kind="stable")]
        shift += 16
    return order
