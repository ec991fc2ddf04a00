"""Checks that read what the one pass over the rows found, or a second look at some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.checks.check import SHOWN, Check, offence_verdict
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_longctx.evidence import Evidence
    from pytest_longctx.tokens.second_look import SecondLook


def finding(section: str, name: str, what: str, advice: str) -> Check:
    """A check that counts offending rows.

    Args:
        what: what an offending row does, as in `3 × {what}`.
    """

    def judge(evidence: Evidence) -> Verdict:
        findings = evidence.measured.findings
        identity = f"{section}::{name}"
        witnesses = findings.witnesses.get(identity, [])[:SHOWN]
        allowed = allowed_rows(evidence, section, name)
        return offence_verdict(name, findings.counts[identity], witnesses, what, advice, allowed)

    return Check(section, name, limit_place(section, name), "measured", judge)


def second_look(name: str, look: SecondLook, what: str, advice: str, allowed: int = 0) -> Verdict:
    """The verdict of rows that were rendered again; skipped where none could be judged."""
    if look.unlocked_by:
        return Verdict("skipped", f"{name}: {look.unlocked_by}")
    verdict = offence_verdict(name, look.offences, look.witnesses[:SHOWN], what, advice, allowed)
    if verdict.outcome == "passed":
        headline = f"{name} holds on {look.rows:,} rows that were rendered again"
        return Verdict("passed", headline, look.offences, allowed, "offences")
    return verdict


def looking_again(
    section: str, name: str, look: Callable[[Evidence], SecondLook], what: str, advice: str
) -> Check:
    """A check over a second rendering of some rows."""

    def judge(evidence: Evidence) -> Verdict:
        return second_look(name, look(evidence), what, advice, allowed_rows(evidence, section, name))

    return Check(section, name, limit_place(section, name), "measured", judge)


def allowed_rows(evidence: Evidence, section: str, name: str) -> int:
    """How many rows may offend: a limit of the dataset, else none."""
    return getattr(evidence.contract.dataset.limits, name, 0) if section == "dataset" else 0


def limit_place(section: str, name: str) -> tuple[str, ...]:
    """Where the contract asks for a check that has no key of its own; the limit's place where it is set."""
    return (section, "limits", name) if section == "dataset" and name in LIMITED else (section,)


LIMITED = ("content_survives", "control_tokens", "arrow_round_trip")
