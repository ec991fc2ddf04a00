"""Slices and samples of the rows: the same checks over a part of them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.dataset import RowProblem
from pytest_longctx.errors import DatasetError, LongctxError
from pytest_longctx.evidence import Evidence, link

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_longctx.dataset import Conversation, Dataset
    from pytest_longctx.tokens.build import Measured

MOST_SLICES = 50
# No name of another value holds a bracket.
EMPTY = "(empty)"


class SliceEvidence(Evidence):
    """The evidence of one slice: the whole dataset's, with the ledger of the slice."""

    def __init__(self, whole: Evidence, value: str) -> None:
        super().__init__(whole.contract, whole.extensions, whole.settings)
        self.whole, self.value = whole, value

    @link
    def measured(self) -> Measured:
        """The pass over all rows, with this slice's samples."""
        measured = self.whole.measured
        chosen = np.flatnonzero(measured.ledger.slices.where(self.value))
        return replace(measured, ledger=measured.ledger.select(chosen), samples=None)

    @link
    def some_samples(self) -> int:
        """How many samples of the slice there are.

        Raises:
            LongctxError: there is none; where rows were drawn, none of these need be of the slice.
        """
        measured = self.measured
        if len(measured.ledger) or measured.population is None:
            return super().some_samples
        became, see = ("became a sample", ", or see dataset::rows") if measured.rejected else ("is", "")
        raise LongctxError(
            f"none of the {measured.rows:,} drawn rows {became} of slice {self.value or EMPTY!r} "
            f"({self.whole.slice_counts[self.value]:,} of {measured.population:,} rows): "
            f"raise dataset.sample.rows{see}"
        )

    @property
    def most_samples(self) -> int | None:
        """The rows of the slice; which of them were drawn and gave no sample is not known."""
        return None if self.measured.population is None else self.whole.slice_counts[self.value]


def slice_values(dataset: Dataset, column: str) -> Counter[str]:
    """Rows per value of the slice column; reads the rows, renders nothing.

    Raises:
        DatasetError: more than fifty values, or rows without one.
    """
    counts: Counter[str] = Counter()
    for row in dataset.rows():
        if isinstance(row, RowProblem):
            continue
        value = row.value.get(column)
        if value is None or isinstance(value, dict | list):
            raise DatasetError(
                f"dataset.slices: row {row.id} has no text or number in {column!r}; give every row a value"
            )
        counts[str(value)] += 1
        if len(counts) > MOST_SLICES:
            raise DatasetError(
                f"dataset.slices: {column!r} has more than {MOST_SLICES} values; choose a column with few "
                "values, such as the source"
            )
    return counts


def slice_names(values: Sequence[str]) -> dict[str, str]:
    """A name of `[a-z0-9_]` per value, told apart by numbers where values become alike; `(empty)` for ""."""
    names: dict[str, str] = {}
    for value in values:
        plain = re.sub(r"[^a-z0-9_]+", "_", value.lower()).strip("_") or ("value" if value else EMPTY)
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}_{number}"
        names[name] = value
    return names


def drawn(dataset: Dataset, rows: int, seed: int) -> tuple[Iterator[Conversation | RowProblem], int]:
    """`rows` of the dataset's rows, drawn without replacement and in their order; and how many there are.

    One pass counts, so that memory stays bounded; the returned iterator is the second.
    """
    population = sum(1 for _ in dataset.rows())
    if rows >= population:
        return iter(dataset), population
    chosen = np.sort(np.random.default_rng(seed).choice(population, rows, replace=False))
    return dataset.at(chosen.tolist()), population
