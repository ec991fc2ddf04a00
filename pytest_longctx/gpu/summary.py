"""A run in a few lines of text, for a terminal or a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_longctx.gpu.record import Record


def headline(record: Record) -> str:
    """Which device, precision and kernel ran: `gpu: NVIDIA H200, bfloat16, sdpa → scaled_dot_product_…`."""
    if record.mode == "dry_run":
        return "gpu: dry run, nothing was measured"
    if not record.execution:
        return f"gpu: nothing was measured: {record.failure.message if record.failure else 'no device'}"
    ran = record.execution
    kernels = ", ".join(ran.get("kernels", ())) or "no kernel"
    return f"gpu: {ran['device']}, {ran['dtype']}, {ran['attention']} → {kernels}"


def lines(record: Record) -> list[str]:
    """The headline, what the record notes, further arms, the baseline's word, and the decision."""
    found = [headline(record), *(f"  {note}" for note in record.execution.get("notes", ()))]
    if record.failure is not None:
        place = f" at {record.failure.place}" if record.failure.place else ""
        found.append(f"  failed in stage {record.failure.stage}{place}: {record.failure.kind}")
    if record.comparison is not None:
        found += [f"  {name} did not run: {reason}" for name, reason in record.comparison.unavailable.items()]
    if record.baseline is not None:
        found.append(f"  baseline {record.baseline.label}: {record.baseline.reason or 'compared'}")
    return [*found, f"  evidence: {record.evidence}, decision: {record.decision}"]
