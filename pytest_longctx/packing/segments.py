"""The segments of a block of batches, as one dialect names them, before anything is compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.packing.match import UNKNOWN, Pieces
from pytest_longctx.tokens.sample import IGNORED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_longctx.packing.block import Block, Member

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]


@dataclass
class Segments:
    """The segments of a block.

    rows: int64[R], where each batch row starts in the block, and filled: int64[R], the tokens in it; what
    follows is padding, `covered` bool[N] is False there, and None where there is none. start, end: int64[S];
    together they are all that is filled. sample: int64[S], once it is known.
    """

    block: Block
    rows: Ints
    filled: Ints
    covered: Flags | None
    start: Ints
    end: Ints
    sample: Ints

    @cached_property
    def size(self) -> Ints:
        """int64[S], tokens."""
        return self.end - self.start

    @cached_property
    def first(self) -> Ints:
        """int64[R], the first segment of each batch row."""
        return np.searchsorted(self.start, self.rows)

    @cached_property
    def number(self) -> Ints:
        """int64[S], the number of each segment in its batch row, from 0."""
        counts = np.append(self.first[1:], len(self.start)) - self.first
        return np.arange(len(self.start)) - np.repeat(self.first, counts)

    @cached_property
    def first_of_member(self) -> Ints:
        """int64[M], the first segment of each batch."""
        return np.searchsorted(self.start, [member.start for member in self.block.members])

    @cached_property
    def per_member(self) -> Ints:
        """int64[M], segments of each batch."""
        return np.append(self.first_of_member[1:], len(self.start)) - self.first_of_member

    def pieces_of(self, member: Member) -> Pieces:
        """The segments of one batch."""
        first, last = np.searchsorted(self.start, [member.start, member.start + member.size])
        start, end = self.start[first:last] - member.start, self.end[first:last] - member.start
        none = np.zeros(len(start), dtype=np.int64)
        return Pieces(start, end, self.sample[first:last], none, none.astype(np.bool_))

    @cached_property
    def packed_edges(self) -> Ints:
        """Where each packed row starts in the block, int64; a batch row may hold several, flattened."""
        edges: list[int] = []
        for member in self.block.members:
            packed, (rows, width) = member.delivery.rows, member.shape
            if packed is None or rows > 1:
                edges += range(member.start, member.start + rows * width, width)
                continue
            at = 0
            for row in packed:
                edges.append(member.start + min(at, width))
                at += len(row.ids)
        return np.array(edges)

    def inside(self, name: str) -> NDArray[Any]:
        """A column without its padding, int[K]."""
        column = self.block.columns[name][: self.block.size]
        return column if self.covered is None else column[self.covered]

    def pads_with(self, name: str, value: int) -> bool:
        """Whether all padding of a column has this value."""
        column = self.block.columns[name][: self.block.size]
        return self.covered is None or bool((column[~self.covered] == value).all())

    @cached_property
    def at(self) -> Ints:
        """int64[S], where each segment starts in what `inside` gives."""
        return np.cumsum(self.size) - self.size

    @cached_property
    def targets(self) -> Flags:
        """bool[N], labels that are no -100, wherever they stand."""
        found: Flags = self.block.columns["labels"][: self.block.size] != IGNORED
        return found

    def targets_of(self, member: Member) -> int:
        """Labels of a batch that enter the loss: the first column never does."""
        own = self.targets[member.start : member.start + member.size].reshape(member.shape)
        return int(np.count_nonzero(own[:, 1:]))

    @property
    def all_targets(self) -> int:
        """Those of all batches."""
        return int(np.count_nonzero(self.targets)) - int(np.count_nonzero(self.targets[self.rows]))


def find_segments(block: Block) -> Segments | None:
    """The segments that one dialect of a block names; None where they do not fill its rows from the start."""
    rows = np.array(
        [
            row
            for member in block.members
            for row in range(member.start, member.start + member.size, member.shape[1])
        ]
    )
    widths = np.append(rows[1:], block.size) - rows
    covered, filled = None, widths
    mask = block.flat("attention_mask")
    if mask is not None:
        covered = mask != 0
        filled = np.add.reduceat(covered, rows, dtype=np.int64)
        if (filled == widths).all():
            covered = None
    spans = _spans(block, rows, rows + filled, covered)
    if spans is None or not _fill_rows(rows, *spans):
        return None
    return Segments(block, rows, filled, covered, *spans, np.full(len(spans[0]), UNKNOWN))


def _spans(block: Block, rows: Ints, stops: Ints, covered: Flags | None) -> tuple[Ints, Ints] | None:
    """Starts and ends of segments as one dialect has them; the others are compared with it."""
    if block.members[0].plain.edges:
        # With padding, borders may lie in it as well.
        return None if covered is not None else _of_edges(block)
    positions = block.flat("position_ids")
    if positions is None:
        return rows, stops
    begins = positions == 0
    if covered is not None:
        begins &= covered
    start = np.flatnonzero(begins)
    if not start.size:
        return None
    row = np.searchsorted(rows, start, side="right") - 1
    return start, np.minimum(np.append(start[1:], block.size), stops[row])


def _fill_rows(rows: Ints, start: Ints, end: Ints) -> bool:
    """Whether no segment is empty and each row starts with one."""
    if start[0] != 0 or (end <= start).any():
        return False
    return bool((start[np.searchsorted(start, rows, side="right") - 1] == rows).all())


def _of_edges(block: Block) -> tuple[Ints, Ints] | None:
    """What cu_seq_lens says; None unless it runs from 0 to the end in each batch, the same for q and k."""
    parts, others = zip(*(member.plain.edges for member in block.members), strict=True)
    edges, keys = np.concatenate(parts), np.concatenate(others)
    counts = np.array([len(part) for part in parts])
    if counts.tolist() != [len(part) for part in others] or (edges != keys).any():
        return None
    last = np.cumsum(counts) - 1
    first = last - counts + 1
    sizes = np.array([member.size for member in block.members])
    if edges[first].any() or (edges[last] != sizes).any():
        return None
    edges = edges + np.repeat(np.cumsum(sizes) - sizes, counts)
    inner = np.ones(len(edges), dtype=np.bool_)
    inner[last] = False
    start = edges[inner]
    inner[last] = True
    inner[first] = False
    return start, edges[inner]
