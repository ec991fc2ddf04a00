"""Section dataset: rows that can be read, and that mean what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.checks.check import SHOWN, Check, clip
from pytest_longctx.checks.findings import finding
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence


def checks(contract: Contract) -> list[Check]:
    """All checks of the section."""
    return [
        Check("dataset", "rows", ("dataset", "path"), "measured", rows),
        finding("dataset", "roles", "roles out of order", "mend the rows: user and assistant take turns"),
        finding(
            "dataset",
            "tool_arguments",
            "tool arguments rendered as an escaped string",
            "give arguments as a mapping, not as JSON text",
        ),
        finding(
            "dataset",
            "content_survives",
            "text lost in rendering",
            "the template drops it: give content as text, use roles it knows, or a template that keeps it",
        ),
        finding(
            "dataset",
            "control_tokens",
            "special tokens inside a text",
            "remove them from the rows: they would end a turn or start another",
        ),
    ]


def rows(evidence: Evidence) -> Verdict:
    """Every row can be read, converted and rendered, and there is at least one."""
    measured = evidence.measured
    count = sum(measured.rejected.values())
    if not measured.rows:
        path = evidence.contract.dataset.path
        return Verdict("failed", f"rows: no row in {path}", 0, 1, "rows", advice="check dataset.path")
    if not count:
        return Verdict("passed", f"rows: {measured.rows:,}, {evidence.dataset.note}", 0, 0, "offences")
    kinds = ", ".join(f"{number:,} × {kind}" for kind, number in measured.rejected.most_common())
    return Verdict(
        "failed",
        clip(f"rows: {count:,} of {measured.rows:,} rows cannot be used"),
        count,
        0,
        "offences",
        context=(kinds, evidence.dataset.note),
        witnesses=tuple(
            {"id": problem.id, "kind": problem.kind, "found": problem.message}
            for problem in measured.problems[:SHOWN]
        ),
        more=max(0, count - SHOWN),
        advice="mend or remove these rows; a trainer would stop on them or train something else",
    )
