"""The slice column itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.checks.check import Check
from pytest_longctx.slices import EMPTY
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from pytest_longctx.evidence import Evidence

# With fewer rows a ratio moves by over a percent with a single one.
FEW = 100


def slice_check() -> Check:
    """`slices`, for contracts that name a slice column."""
    return Check("dataset", "slices", ("dataset", "slices"), "slice_counts", slices)


def slices(evidence: Evidence) -> Verdict:
    """Every row has a value, and there are at most fifty; a slice with few rows is said to be small."""
    counts = evidence.slice_counts
    if not counts:
        return Verdict("failed", "slices: there is no row", 0, 1, "rows", advice="check dataset.path")
    small = [f"{value or EMPTY} {rows:,}" for value, rows in counts.most_common() if rows < FEW]
    note = f"; few rows: {', '.join(small)}" if small else ""
    return Verdict("passed", f"slices: {len(counts)}{note}", len(counts), None, "number")
