"""The one pass over what a packer, collator or trainer delivers: every invariant, memory of one batch."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.account import Audit
from pytest_longctx.packing.batch import PackedRow, read_batch
from pytest_longctx.packing.block import Waiting, copied, fields_of
from pytest_longctx.packing.conservation import Coverage, conservation
from pytest_longctx.packing.invariants import PER_BATCH, index_range, supervision_per_row
from pytest_longctx.packing.layout import layouts
from pytest_longctx.packing.match import UNKNOWN, SampleIndex
from pytest_longctx.packing.proof import Prover
from pytest_longctx.packing.targets import other_divisor, other_targets, targets_of_rows
from pytest_longctx.packing.view import View, Viewer, list_names, row_edges
from pytest_longctx.tokens.sample import IGNORED
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from pytest_longctx.packing.block import Block
    from pytest_longctx.packing.segments import Segments
    from pytest_longctx.tokens.ledger import Samples

__all__ = ["Audit", "Delivery", "Expected", "audit", "grouped"]


@dataclass(frozen=True)
class Expected:
    """What a pipeline should deliver.

    lengths: int64[n], tokens of each sample, 0 for samples that should not come. fed: bool[n], samples that
    the pipeline was given. capacity in tokens; batch_size in packed rows. vocabulary and row_stride bound
    `index_range`; pad_token_id is what rows are padded with.
    """

    lengths: NDArray[np.int64]
    fed: NDArray[np.bool_]
    capacity: int
    batch_size: int = 1
    vocabulary: int | None = None
    row_stride: int | None = None
    pad_token_id: int = 0


@dataclass(frozen=True)
class Delivery:
    """Packed rows, the batch made of them, or both where both can be seen.

    normalizer: the number of targets that the trainer divides this batch's loss by, where it tells.
    """

    rows: Sequence[PackedRow] | None = None
    batch: Mapping[str, Any] | None = None
    normalizer: int | None = None


def audit(deliveries: Iterable[Delivery], samples: Samples, expected: Expected, maker: str) -> Audit:
    """Check everything that a pipeline delivers.

    Args:
        maker: names the pipeline in messages.

    Raises:
        PackingError: what was delivered cannot be read, or nothing was delivered.
    """
    work = _Pass(samples, expected, maker)
    for delivery in deliveries:
        work.take(delivery)
    return work.finish()


class _Pass:
    def __init__(self, samples: Samples, expected: Expected, maker: str) -> None:
        self.samples, self.expected, self.maker = samples, expected, maker
        self.result = Audit(samples, expected)
        self.index = SampleIndex(samples, expected.lengths, expected.capacity)
        self.viewer = Viewer(samples, self.index, expected.pad_token_id)
        self.coverage = Coverage(samples, expected.lengths)
        self.prover = Prover(samples, self.index, expected)
        self.waiting = Waiting(self._judge)
        self.batch_rows = 0
        self.long = array("q")  # numbers of long rows that may be several packed rows

    def take(self, delivery: Delivery) -> None:
        _refuse_others(delivery, self.maker)
        if delivery.batch is None and delivery.rows is not None:
            self.waiting.settle()
            self._rows(delivery.rows, apart=True)
            return
        first = self.batch_rows + self.waiting.rows if delivery.rows is None else self.result.rows
        if delivery.rows is not None:
            self._rows(delivery.rows, apart=False)
        if not (self.prover.able and self.waiting.take(delivery, first)):
            self.waiting.settle()
            self._look(delivery, delivery.batch, first)

    def _judge(self, block: Block) -> None:
        """Prove a block sound, or look at each of its batches."""
        segments = self.prover.prove(block)
        if segments is not None:
            self._accept(segments)
            return
        for member in block.members:
            self._look(member.delivery, fields_of(block, member), member.first_row)

    def _accept(self, segments: Segments) -> None:
        """Count a block that has no offence."""
        result, block = self.result, segments.block
        targets = segments.all_targets
        result.targets += targets
        result.expected_targets += targets
        result.width_tokens += block.size
        result.piece_tokens += int(segments.size.sum())
        result.batches += len(segments.rows)
        self.batch_rows += len(segments.packed_edges)
        if block.members[0].delivery.rows is None and not result.rows_seen:
            shapes = [member.shape[0] for member in block.members]
            self._rows_of_batches(segments.filled, shapes)
        rows = np.searchsorted(segments.packed_edges, segments.start, side="right") - 1
        result.packed_row[segments.sample] = block.members[0].first_row + rows
        if result.example is None or len(result.example.pieces.start) < 2:
            self._show(segments)

    def _show(self, segments: Segments) -> None:
        """Keep the first batch that packs several samples, else the first of all."""
        several = np.flatnonzero(segments.per_member > 1)
        if several.size or self.result.example is None:
            member = segments.block.members[int(several[0]) if several.size else 0]
            batch = read_batch(copied(fields_of(segments.block, member)), self.maker)
            pieces = segments.pieces_of(member)
            edges = row_edges(batch, member.delivery.rows)
            view = View(batch, self.samples, pieces, layouts(batch), edges, member.first_row)
            self.result.example = view

    def _look(self, delivery: Delivery, fields: Any, first: int) -> None:
        """Look at one batch with every invariant."""
        view = self.viewer.view(read_batch(fields, self.maker), delivery.rows, first)
        if delivery.rows is None and not self.result.rows_seen:
            shape = view.batch.ids.shape
            self._rows_of_batches(view.covered.reshape(shape).sum(axis=1), shape[:1])
        self._inspect(view, delivery.normalizer)
        self.coverage.add(view)
        self.batch_rows += len(view.edges)
        self.result.batches += view.batch.rows
        self._place(view)

    def _place(self, view: View) -> None:
        """Note the row of each sample; keep a batch that shows how samples are packed."""
        starts = (view.pieces.sample != UNKNOWN) & (view.pieces.offset == 0)
        rows = view.first_row + np.searchsorted(view.edges, view.pieces.start[starts], side="right") - 1
        self.result.packed_row[view.pieces.sample[starts]] = rows
        shown = self.result.example
        if shown is None or (len(shown.pieces.start) < 2 <= len(view.pieces.start)):
            self.result.example = view

    def _rows(self, rows: Sequence[PackedRow], *, apart: bool) -> None:
        """Count packed rows, and hold them against the capacity; rows seen apart also against the loss."""
        result = self.result
        result.rows_seen |= apart
        for number, row in enumerate(rows, result.rows):
            result.row_tokens += len(row.ids)
            result.row_lengths.append(len(row.ids))
            if len(row.ids) > self.expected.capacity:
                self._too_long(number, len(row.ids), self.expected.capacity)
            if apart and not _has_target(row.labels):
                self._idle(self._named(row, number), len(row.ids))
        result.rows += len(rows)

    def _idle(self, witness: Witness, tokens: int) -> None:
        self.result.add("supervision_per_row", [witness])
        self.result.idle_tokens += tokens

    def _named(self, row: PackedRow, number: int) -> Witness:
        lengths = row.lengths if row.lengths is not None else np.array([len(row.ids)])
        names = list_names(self.samples, self.index.look_up(row.ids, lengths))
        return Witness(f"row {number}", "≥ 1 target", 0, row=number, note=names)

    def _too_long(self, number: int, tokens: int, capacity: int) -> None:
        self.result.add("capacity", [Witness(f"row {number}", capacity, tokens, row=number)])

    def _rows_of_batches(self, tokens: NDArray[np.int64], shapes: Sequence[int]) -> None:
        """Capacity and counts from batches' own rows, where packed rows cannot be seen.

        tokens: of each row of some batches. shapes: the number of rows of each batch.
        """
        result = self.result
        if self.expected.batch_size > 1:
            result.flattened += sum(rows == 1 for rows in shapes)
            result.apart |= any(rows > 1 for rows in shapes)
        self.long.extend((result.rows + np.flatnonzero(tokens > self.expected.capacity)).tolist())
        result.rows += len(tokens)
        result.row_tokens += int(tokens.sum())
        result.row_lengths.extend(tokens.tolist())

    def _inspect(self, view: View, normalizer: int | None) -> None:
        result = self.result
        for check, invariant in PER_BATCH.items():
            result.add(check, invariant(view))
        result.add("index_range", index_range(view, self.expected.vocabulary, self.expected.row_stride))
        if not (result.rows_seen and result.counts["supervision_per_row"]):
            for witness, tokens in supervision_per_row(view):
                self._idle(witness, tokens)
        found, wanted = targets_of_rows(view)
        targets, expected = int(found.sum()), int(wanted.sum())
        result.targets += targets
        result.expected_targets += expected
        if targets != expected:
            result.add("target_count", other_targets(view, found, wanted))
        if normalizer is not None and normalizer != expected:
            result.add("target_count", [other_divisor(view, expected, normalizer)])
        result.width_tokens += view.batch.ids.size
        result.piece_tokens += int((view.pieces.end - view.pieces.start).sum())
        result.fragments += int((view.pieces.known & (view.pieces.offset > 0)).sum())

    def finish(self) -> Audit:
        self.waiting.settle()
        if not self.batch_rows:
            fed = int(self.expected.fed.sum())
            raise PackingError(f"{self.maker} delivered no batch, expected the {fed} samples it was given")
        # One long row may be several packed rows, flattened.
        limit = self.expected.capacity * (self.expected.batch_size if self.result.rows_hidden else 1)
        for number in self.long:
            if (size := self.result.row_lengths[number]) > limit:
                self._too_long(number, size, limit)
        found = conservation(self.samples, self.expected, self.index.delivered, self.coverage)
        self.result.add("sample_conservation", found)
        self.result.other_texts = self.coverage.other_texts
        return self.result


def _refuse_others(delivery: Any, maker: str) -> None:
    """Raise where a trainer delivers anything else than packed rows and batches in their own types."""
    if not isinstance(delivery, Delivery):
        found = type(delivery).__name__
        raise PackingError(f"{maker} delivered a {found}, expected Delivery(rows, batch)")
    rows = delivery.rows
    if rows is not None and not isinstance(rows, Sequence):
        raise PackingError(f"{maker} delivered rows as a {type(rows).__name__}, expected a list of PackedRow")
    if rows is not None and not rows:
        raise PackingError(f"{maker} delivered an empty list of rows, expected None where it shows none")
    for row in rows or ():
        if not isinstance(row, PackedRow):
            raise PackingError(
                f"{maker} delivered a {type(row).__name__} among its rows, expected a PackedRow, as "
                f"pytest_longctx.packing.batch.read_row makes it of a mapping"
            )


def _has_target(labels: NDArray[np.int64]) -> bool:
    """Whether a row trains anything: its first label never enters the loss."""
    return bool((labels[1:] != IGNORED).any())


def grouped(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` rows, the last one shorter."""
    iterator = iter(rows)
    while block := list(islice(iterator, size)):
        yield block
