"""What the one pass over deliveries found and counted."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pytest_longctx.packing.audit import Expected
    from pytest_longctx.packing.comparison import Comparison
    from pytest_longctx.packing.view import View
    from pytest_longctx.tokens.ledger import Samples
    from pytest_longctx.witness import Witness

MOST_WITNESSES = 10_000
OF_ROWS = ("capacity", "supervision_per_row")
"""Invariants that hold of each packed row, and cannot be judged where none is seen."""


@dataclass
class Audit:
    """Offences by check, and what was counted.

    rows, row_tokens: packed rows and their tokens; width_tokens: tokens of all batches with padding.
    targets, expected_targets: labels that enter the loss, and those that the delivered samples have.
    fragments: pieces that do not start their sample. idle_tokens: tokens of rows without a target.
    rows_seen: whether packed rows were seen apart from batches, as a trainer prepared them. row_lengths:
    tokens of each packed row. example: the batch to show, the first one that packs several samples.
    flattened: batches of one row that may hold several packed rows; apart: whether other batches without
    word of their packed rows keep them apart. other_texts: samples that came with other tokens.
    """

    samples: Samples = field(repr=False)
    expected: Expected = field(repr=False)

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
    idle_tokens: int = 0
    rows_seen: bool = False
    row_lengths: array[int] = field(default_factory=lambda: array("i"))
    example: View | None = None
    flattened: int = 0
    apart: bool = False
    other_texts: int = 0

    @property
    def rows_hidden(self) -> bool:
        """Whether packed rows came only run together, so that `rows` and what is made of it are no numbers.

        Beside batches that keep rows apart, those of one row are what was left over.
        """
        return bool(self.flattened) and not self.apart

    @property
    def unseen(self) -> tuple[str, ...]:
        """Invariants of which no offence was found and nothing can be said."""
        if not self.rows_hidden:
            return ()
        # However many packed rows a batch of no more tokens than the capacity holds, none has more.
        names = OF_ROWS if max(self.row_lengths) > self.expected.capacity else OF_ROWS[1:]
        return tuple(name for name in names if not self.counts[name])

    @cached_property
    def packed_row(self) -> NDArray[np.int32]:
        """int32[n], the row of a batch in which each sample starts, -1 where in none."""
        return np.full(len(self.expected.lengths), -1, dtype=np.int32)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The packer beside the references; None where samples or rows did not come as planned."""
        chosen, capacity = self.expected.lengths > 0, self.expected.capacity
        lengths = self.expected.lengths[chosen]
        longest = max(max(self.row_lengths, default=0), int(lengths.max(initial=0)))
        if self.counts["sample_conservation"] or not lengths.size or longest > capacity or self.rows_hidden:
            return None
        rows = self.packed_row[chosen]
        # A trainer may flatten several packed rows into one row of a batch: then they cannot be told apart.
        whole = not self.fragments and rows.min() >= 0 and len(np.unique(rows)) == self.rows
        return compare(self.rows, rows, lengths, capacity, lambda: self._kinds(chosen), whole=bool(whole))

    def _kinds(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """int64[n], one number for all of the chosen samples that have the same tokens."""
        known: dict[bytes, int] = {}
        planned = zip(np.flatnonzero(chosen).tolist(), self.expected.lengths[chosen].tolist(), strict=True)
        contents = (sha256(self.samples[sample].ids[:length].data).digest() for sample, length in planned)
        return np.array([known.setdefault(content, len(known)) for content in contents])

    def add(self, check: str, found: Iterable[Witness]) -> None:
        """Count offences against a check; the first ten thousand are kept."""
        kept = self.witnesses.setdefault(check, [])
        for witness in found:
            self.counts[check] += 1
            if len(kept) < MOST_WITNESSES:
                kept.append(witness)
