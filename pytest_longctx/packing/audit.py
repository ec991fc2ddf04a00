"""The one pass over what a packer, collator or trainer delivers: every invariant, memory of one batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.batch import read_batch, to_numpy
from pytest_longctx.packing.conservation import Coverage, conservation
from pytest_longctx.packing.invariants import PER_BATCH, index_range
from pytest_longctx.packing.match import SampleIndex
from pytest_longctx.packing.view import Viewer
from pytest_longctx.tokens.sample import IGNORED
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pytest_longctx.packing.view import View
    from pytest_longctx.tokens.ledger import Samples

MOST_WITNESSES = 200


@dataclass(frozen=True)
class Expected:
    """What a pipeline should deliver.

    lengths: int64[n], tokens of each sample, 0 for samples that should not come. fed: bool[n], samples that the
    pipeline was given. capacity in tokens. vocabulary and row_stride bound `index_range`.
    """

    lengths: NDArray[np.int64]
    fed: NDArray[np.bool_]
    capacity: int
    vocabulary: int | None = None
    row_stride: int | None = None


@dataclass(frozen=True)
class Delivery:
    """Packed rows, the batch made of them, or both where both can be seen."""

    rows: Sequence[Mapping[str, Any]] | None
    batch: Mapping[str, Any] | None


@dataclass
class Audit:
    """Offences by check, and what was counted.

    rows, row_tokens: packed rows and their tokens; width_tokens: tokens of all batches with padding.
    targets, expected_targets: labels that enter the loss, and those that the delivered samples have.
    """

    counts: Counter[str] = field(default_factory=Counter)
    witnesses: dict[str, list[Witness]] = field(default_factory=dict)
    batches: int = 0
    rows: int = 0
    row_tokens: int = 0
    width_tokens: int = 0
    piece_tokens: int = 0
    targets: int = 0
    expected_targets: int = 0
    fragments: int = 0
    example: View | None = None

    def add(self, check: str, found: Iterable[Witness]) -> None:
        """Count offences against a check; the first two hundred are kept."""
        kept = self.witnesses.setdefault(check, [])
        for witness in found:
            self.counts[check] += 1
            if len(kept) < MOST_WITNESSES:
                kept.append(witness)


def audit(deliveries: Iterable[Delivery], samples: Samples, expected: Expected, maker: str) -> Audit:
    """Check everything that a pipeline delivers.

    Args:
        maker: names the pipeline in messages.

    Raises:
        PackingError: what was delivered cannot be read, or nothing was delivered.
    """
    result = Audit()
    index = SampleIndex(samples, expected.lengths)
    viewer = Viewer(samples, index)
    coverage = Coverage(samples, expected.lengths)
    for delivery in deliveries:
        lengths = _packed_rows(delivery.rows, result, expected, maker, result.rows)
        if delivery.batch is None:
            continue
        view = viewer.view(read_batch(delivery.batch, maker), lengths, result.batches)
        if delivery.rows is None:
            _count_batch_rows(view, result, expected)
        _inspect(view, result, expected)
        coverage.add(view)
        result.batches += view.batch.rows
        result.example = result.example or view
    if not result.batches:
        raise PackingError(f"{maker} delivered no batch, expected the {int(expected.fed.sum())} samples it was given")
    result.add("sample_conservation", conservation(samples, expected, index.delivered, coverage))
    return result


def _packed_rows(
    rows: Sequence[Mapping[str, Any]] | None, result: Audit, expected: Expected, maker: str, first: int
) -> list[NDArray[np.int64]] | None:
    """Check packed rows by themselves; the lengths of their segments where they all say them."""
    if rows is None:
        return None
    lengths = []
    for number, row in enumerate(rows, first):
        ids, labels = (_column(row, name, maker, number) for name in ("input_ids", "labels"))
        if len(labels) != len(ids):
            raise PackingError(f"{maker}: row {number} has {len(ids)} input_ids and {len(labels)} labels")
        result.rows += 1
        result.row_tokens += len(ids)
        if len(ids) > expected.capacity:
            result.add("capacity", [Witness(f"row {number}", expected.capacity, len(ids), row=number)])
        if row.get("seq_lengths") is not None:
            lengths.append(_column(row, "seq_lengths", maker, number).astype(np.int64))
    return lengths if len(lengths) == len(rows) else None


def _column(row: Mapping[str, Any], name: str, maker: str, number: int) -> NDArray[Any]:
    if row.get(name) is None:
        raise PackingError(f"{maker}: row {number} has no {name}; it holds {', '.join(map(str, row)) or 'nothing'}")
    array = to_numpy(row[name], f"{maker}: row {number}, {name}")
    if array.ndim != 1:
        raise PackingError(f"{maker}: row {number}, {name} has shape {array.shape}, expected one dimension")
    return array


def _count_batch_rows(view: View, result: Audit, expected: Expected) -> None:
    """Capacity and counts from the batch's own rows, where packed rows cannot be seen."""
    tokens = view.covered.reshape(view.batch.ids.shape).sum(axis=1)
    result.rows += view.batch.rows
    result.row_tokens += int(tokens.sum())
    for row in np.flatnonzero(tokens > expected.capacity).tolist():
        number = view.first_row + row
        result.add("capacity", [Witness(f"row {number}", expected.capacity, int(tokens[row]), row=number)])


def _inspect(view: View, result: Audit, expected: Expected) -> None:
    for check, invariant in PER_BATCH.items():
        result.add(check, invariant(view))
    result.add("index_range", index_range(view, expected.vocabulary, expected.row_stride))
    targets, wanted = _targets(view)
    result.targets += targets
    result.expected_targets += wanted
    if targets != wanted:
        row = f"row {view.first_row}"
        result.add("target_count", [Witness(row, wanted, targets, row=view.first_row)])
    result.width_tokens += view.batch.ids.size
    result.piece_tokens += int(view.covered.sum())
    result.fragments += int((view.pieces.known & (view.pieces.offset > 0)).sum())


def _targets(view: View) -> tuple[int, int]:
    """Labels of the batch that enter the loss (the first column never does), and those that should.

    A sample's own first token is never predicted; every other label of a token that was delivered is.
    """
    found = int((view.batch.labels[:, 1:] != IGNORED).sum())
    first = np.isin(view.sources, view.samples.offsets[view.pieces.sample[view.pieces.known]])
    wanted = int((view.samples.labels[view.sources[~first]] != IGNORED).sum())
    return found, wanted


def grouped(rows: Iterable[Mapping[str, Any]], size: int) -> Iterator[list[Mapping[str, Any]]]:
    """Lists of `size` rows, the last one shorter."""
    iterator = iter(rows)
    while block := list(islice(iterator, size)):
        yield block
