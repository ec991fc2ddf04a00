"""Offending rows by check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_longctx.witness import Witness

MOST_WITNESSES = 10_000


@dataclass
class Findings:
    """Offending rows per check: how many, and the first ten thousand witnesses (one a row)."""

    counts: Counter[str] = field(default_factory=Counter)
    witnesses: dict[str, list[Witness]] = field(default_factory=dict)

    def add(self, check: str, witness: Witness) -> None:
        """Count one row against a check."""
        self.counts[check] += 1
        kept = self.witnesses.setdefault(check, [])
        if len(kept) < MOST_WITNESSES:
            kept.append(witness)
