"""Section supervision: what is trained, token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.checks.check import Check
from pytest_longctx.checks.findings import finding

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract

_CHECKS = (
    (
        "present",
        "no answer token to learn",
        "the row trains nothing of its answer: empty answer, text lost in rendering, or a marker not found",
    ),
    (
        "roles",
        "supervised outside the assistant's turns",
        "only the assistant's text may stand inside {% generation %}",
    ),
    ("turns", "other turns supervised than the policy wants", "compare supervision.turns with the template"),
    (
        "turn_end",
        "end of turn not trained",
        "put the end-of-turn token inside {% generation %}, or the model never learns to stop",
    ),
    ("labels_match_ids", "label is not the id at its place", "labels are shifted or of another row: do not shift them"),
    (
        "prompt_prefix",
        "prompt is no prefix of prompt + completion",
        "end the prompt on a token boundary (a newline), or use a template that renders it the same way",
    ),
)


def checks(contract: Contract) -> list[Check]:
    """All checks of the section."""
    return [finding("supervision", name, what, advice) for name, what, advice in _CHECKS]
