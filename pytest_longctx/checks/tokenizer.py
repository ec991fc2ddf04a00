"""Section tokenizer: one fixed tokenizer, one fixed template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.checks.check import Check
from pytest_longctx.checks.findings import finding, looking_again
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence


def checks(contract: Contract) -> list[Check]:
    """All checks of the section; none for rows of lengths alone."""
    if contract.tokenizer is None or contract.dataset.shape == "lengths":
        return []
    pin = ("tokenizer", "fingerprint") if contract.tokenizer.fingerprint else ("tokenizer",)
    return [
        Check("tokenizer", "pinned", pin, "tokenizer", pinned),
        looking_again(
            "tokenizer",
            "deterministic_template",
            lambda evidence: evidence.two_clocks,
            "row whose ids change with the date",
            "the template reads the clock: pin the date in tokenizer.template_kwargs, if the template takes "
            "one (date_string), or use a template that writes none",
        ),
        finding(
            "tokenizer",
            "single_bos",
            "BOS not once at the start",
            "the template writes BOS and the tokenizer adds one, or neither does: let one of them do it",
        ),
        finding(
            "tokenizer",
            "offsets",
            "token spans that do not cover the text in order",
            "labels cannot be aligned: use the tokenizer's own tokenizer.json",
        ),
        looking_again(
            "tokenizer",
            "prefix_render",
            lambda evidence: evidence.growing_prefixes,
            "row whose first turns render otherwise alone",
            "the model would see other tokens in a dialogue than it was trained on: use a template that "
            "keeps earlier turns as they are (a training variant)",
        ),
    ]


def pinned(evidence: Evidence) -> Verdict:
    """The tokenizer is what the contract pins: files or a commit, and the fingerprint if there is one."""
    terms, found = evidence.contract.tokenizer, evidence.tokenizer.fingerprint
    wanted = terms.fingerprint if terms else None
    if wanted is None or wanted == found:
        return Verdict("passed", "pinned holds")
    return Verdict(
        "failed",
        "pinned: the fingerprint is another one",
        context=(f"expected {wanted}", f"found    {found}"),
        advice="tokenizer files, template or kwargs changed: if on purpose, put the found one into the "
        "contract",
    )
