"""Which rows stand behind each check, for the report: all of them up to a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.window import OVERFLOW, REASONS, TRUNCATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_longctx.evidence import Evidence

MOST_IDS = 10_000


def offenders(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """Check → `{count, ids, reasons}`, for links that were made; at most ten thousand ids a check.

    `reasons` counts why, where that is known. Checks without an offending row are left out.
    """
    made = vars(evidence)
    found: dict[str, dict[str, Any]] = {}
    if "measured" in made:
        found.update(_measured(evidence))
    if "plan" in made:
        found.update(_planned(evidence))
    if "audit" in made:
        found.update(_delivered(evidence))
    return {check: entry for check, entry in found.items() if entry["count"]}


def _entry(count: int, ids: Sequence[str], reasons: dict[str, int] | None = None) -> dict[str, Any]:
    return {"count": int(count), "ids": list(ids[:MOST_IDS]), "reasons": reasons or {}}


def _measured(evidence: Evidence) -> Iterator[tuple[str, dict[str, Any]]]:
    measured = evidence.measured
    ids = [problem.id for problem in measured.problems]
    yield "dataset::rows", _entry(sum(measured.rejected.values()), ids, dict(measured.rejected))
    for check, count in measured.findings.counts.items():
        yield check, _entry(count, [w.id for w in measured.findings.witnesses.get(check, [])])


def _planned(evidence: Evidence) -> Iterator[tuple[str, dict[str, Any]]]:
    plan, ids = evidence.plan, evidence.measured.ledger.ids
    chosen = {
        "max_overflow_ratio": plan.decision == OVERFLOW,
        "max_truncated_ratio": plan.decision == TRUNCATE,
        "min_kept_supervision_ratio": plan.kept < plan.supervised,
    }
    codes, counts = np.unique(plan.reason[plan.decision == OVERFLOW], return_counts=True)
    reasons = {REASONS[code]: int(count) for code, count in zip(codes.tolist(), counts.tolist(), strict=True)}
    for name, mask in chosen.items():
        places = np.flatnonzero(mask)
        why = reasons if name == "max_overflow_ratio" else None
        yield (
            f"window::{name}",
            _entry(len(places), [ids[place] for place in places[:MOST_IDS].tolist()], why),
        )


def _delivered(evidence: Evidence) -> Iterator[tuple[str, dict[str, Any]]]:
    audit = evidence.audit
    for name, count in audit.counts.items():
        ids = list(dict.fromkeys(witness.id for witness in audit.witnesses.get(name, [])))
        yield f"packing::{name}", _entry(count, ids)
