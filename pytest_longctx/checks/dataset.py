"""Section dataset: rows that can be read, and that mean what they say."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_longctx.checks.check import SHOWN, Check, clip, unavailable
from pytest_longctx.checks.findings import allowed_rows, finding, limit_place, second_look
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence

_LOADER = (
    "load_dataset infers types from a file's first 10 MB and casts the rest: pass features with Json() "
    "columns for what varies (messages, tools), or give all rows one type"
)


def checks(contract: Contract) -> list[Check]:
    """All checks of the section; of rows of lengths only that they can be read."""
    readable = Check("dataset", "rows", ("dataset", "path"), "measured", rows)
    if contract.dataset.shape == "lengths":
        return [readable]
    return [
        readable,
        finding(
            "dataset",
            "roles",
            "roles out of order, or no user's text",
            "mend the rows: user and assistant take turns, and a user says something",
        ),
        finding(
            "dataset",
            "tool_arguments",
            "tool arguments that are no object",
            "give arguments as a mapping, not as JSON text: the model would learn to write escaped quotes",
        ),
        finding(
            "dataset",
            "content_survives",
            "text lost, cut short, or written as source",
            "flatten a list of parts to text, or use a template that reads parts; use roles it knows, and a "
            "template that keeps reasoning and shows tools; drop answers that stop in their reasoning",
        ),
        finding(
            "dataset",
            "control_tokens",
            "special tokens inside a text",
            "remove them from the rows: they would end a turn or start another",
        ),
        Check(
            "dataset",
            "arrow_round_trip",
            limit_place("dataset", "arrow_round_trip"),
            "measured",
            arrow_round_trip,
        ),
    ]


def rows(evidence: Evidence) -> Verdict:
    """Every row can be read, converted and rendered, and there is at least one."""
    measured = evidence.measured
    count = sum(measured.rejected.values())
    if not measured.rows:
        path = evidence.contract.dataset.path
        return Verdict("failed", clip(f"rows: no row in {path}"), 0, 1, "rows", advice="check dataset.path")
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


def arrow_round_trip(evidence: Evidence) -> Verdict:
    """Rows have the same ids from the file and from the loader that trainers use.

    A loader that refuses the files stops a training script at once; that fails only where the contract names
    a trainer, which would be that script.
    """
    name = "arrow_round_trip"
    if find_spec("datasets") is None:
        return unavailable(evidence, f"{name} needs datasets: pip install 'pytest-longctx[hub]'", "datasets")
    look = evidence.round_trip
    if look.refused:
        return _refused(name, look.refused, evidence)
    allowed = allowed_rows(evidence, "dataset", name)
    return second_look(name, look, "row with other ids from load_dataset", _LOADER, allowed)


def _refused(name: str, reason: str, evidence: Evidence) -> Verdict:
    packing = evidence.contract.packing
    if packing is None or packing.trainer is None:
        unlock = f"files of one type can be judged, these load_dataset does not read together: {reason}"
        return Verdict("skipped", f"{name}: {unlock}")
    headline = f"{name}: load_dataset does not read these files"
    return Verdict("failed", headline, 1, 0, "offences", context=(reason,), advice=_LOADER)
