"""Section tokenizer: one fixed tokenizer, one fixed template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.checks.check import Check
from pytest_longctx.checks.findings import finding
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence


def checks(contract: Contract) -> list[Check]:
    """All checks of the section."""
    pin = ("tokenizer", "fingerprint") if contract.tokenizer.fingerprint else ("tokenizer",)
    return [
        Check("tokenizer", "pinned", pin, "tokenizer", pinned),
        finding(
            "tokenizer",
            "single_bos",
            "BOS not once at the start",
            "the template writes BOS and the tokenizer adds one: let one of them do it",
        ),
        finding(
            "tokenizer",
            "offsets",
            "token spans that do not cover the text in order",
            "labels cannot be aligned: use the tokenizer's own tokenizer.json",
        ),
    ]


def pinned(evidence: Evidence) -> Verdict:
    """The tokenizer is what the contract pins: local files, or a commit; and the fingerprint where one is given."""
    wanted, found = evidence.contract.tokenizer.fingerprint, evidence.tokenizer.fingerprint
    if wanted is None or wanted == found:
        return Verdict("passed", "pinned holds")
    return Verdict(
        "failed",
        "pinned: the fingerprint is another one",
        context=(f"expected {wanted}", f"found    {found}"),
        advice="tokenizer files, template or kwargs changed: if on purpose, put the found one into the contract",
    )
