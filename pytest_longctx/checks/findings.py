"""Checks that read what the one pass over the rows found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.checks.check import SHOWN, Check, offence_verdict

if TYPE_CHECKING:
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.verdict import Verdict


def finding(section: str, name: str, what: str, advice: str) -> Check:
    """A check that counts offending rows.

    Args:
        what: what an offending row does, as in `3 × {what}`.
    """

    def judge(evidence: Evidence) -> Verdict:
        findings = evidence.measured.findings
        identity = f"{section}::{name}"
        allowed = getattr(evidence.contract.dataset.limits, name, 0) if section == "dataset" else 0
        witnesses = findings.witnesses.get(identity, [])[:SHOWN]
        return offence_verdict(name, findings.counts[identity], witnesses, what, advice, allowed)

    return Check(section, name, (section,), "measured", judge)
