"""Section supervision: what is trained, token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.checks.check import SHOWN, Check, clip, offence_verdict, witness_rows
from pytest_longctx.checks.findings import finding
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence

_CHECKS = (
    (
        "present",
        "no answer token to learn",
        "the row trains nothing of its answer: empty answer, text lost in rendering, or a marker not found",
    ),
    (
        "roles",
        "supervised outside the assistant's turns",
        "only the assistant's text may be trained: inside {% generation %}, or in the labels of rows of ids",
    ),
    (
        "turns",
        "other turns supervised than the policy wants",
        "compare supervision.turns with the template, or with the labels of rows of ids",
    ),
    (
        "turn_end",
        "end of turn not trained as a token",
        "train it, inside {% generation %} or in the labels of rows of ids, and as a token of the tokenizer: "
        "a model that never saw it trained never stops",
    ),
    (
        "labels_match_ids",
        "label is not the id at its place",
        "labels are shifted or of another row: do not shift them",
    ),
    (
        "prompt_prefix",
        "prompt is no prefix of prompt + completion",
        "supervision starts where the two part, as in TRL: end the prompt on a token boundary (a newline), "
        "or use a template that renders it the same way",
    ),
)


def checks(contract: Contract) -> list[Check]:
    """All checks of the section; none for rows of lengths alone."""
    if contract.dataset.shape == "lengths":
        return []
    found = [finding("supervision", name, what, advice) for name, what, advice in _CHECKS]
    named = contract.supervision.message_weight is not None
    key = ("supervision", "message_weight") if named else ("supervision",)
    return [*found, Check("supervision", "message_weight", key, "measured", message_weight)]


def message_weight(evidence: Evidence) -> Verdict:
    """Weights in the rows are those that the contract names; a warning where it names none."""
    name, findings = "message_weight", evidence.measured.findings
    count = findings.counts[f"supervision::{name}"]
    witnesses = findings.witnesses.get(f"supervision::{name}", [])[:SHOWN]
    if evidence.contract.supervision.message_weight is not None:
        advice = "labels know only 0 and 1, and only an assistant's message can be trained: mend the weights"
        return offence_verdict(name, count, witnesses, "weight that labels cannot follow", advice)
    if not count:
        return Verdict("passed", f"{name} holds", 0, 0, "offences")
    return Verdict(
        "warned",
        clip(f"{name}: {count:,} rows carry weights that the contract does not name"),
        count,
        0,
        "offences",
        witnesses=witness_rows(witnesses),
        more=count - len(witnesses),
        advice="TRL and transformers ignore them and train the answer: name the key in "
        "supervision.message_weight if the training run honours it, or remove it from the rows",
    )
