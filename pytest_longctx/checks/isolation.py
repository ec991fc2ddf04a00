"""Section isolation: do packed samples see each other, in the model, as it is called?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_longctx.checks.check import SHOWN, Check, clip, unavailable, witness_rows
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.isolation import ProbeResult

QUESTIONS = ("logits", "gradients", "standalone", "loss", "call_matrix")
FLASH = ("flash_attention_2", "flash_attention_3")
_ADVICE = {
    "leaks": "pass position_ids without an all-ones mask and with use_cache: false, or another collator or attention; "
    "docs/isolation.md has what isolates",
    "wrong": "isolated, but not what the sample alone gives: a dense mask over a sliding window loses the window; "
    "use a form of batch without a mask",
}


def checks(contract: Contract) -> list[Check]:
    """Each question once per attention implementation; of flash attention also its dispatch."""
    section = contract.isolation
    if section is None:
        return []
    return [
        Check(
            "isolation", name, ("isolation", "attention"), "probes", partial(ask, name, attention), part=attention
        )
        for attention in section.attention
        for name in (*QUESTIONS, *(("dispatch",) if attention in FLASH else ()))
    ]


def ask(name: str, attention: str, evidence: Evidence) -> Verdict:
    """The verdict of one question: isolated passes, leaking and wrong fail, unknown is skipped."""
    result = evidence.probes(attention).get(name)
    if result is None:
        reason = "the kernel itself is probed here, so its dispatch need not be"
        return Verdict("skipped", f"{name}: {reason}")
    if result.outcome == "unknown":
        return unavailable(evidence, attention, f"{name} {attention}: {result.message}")
    if result.outcome == "isolated":
        return Verdict("passed", f"{name} {attention}: {result.message}", result.measured, result.limit, "number")
    return _failed(name, attention, result)


def _cells(table: tuple[dict[str, Any], ...]) -> list[str]:
    """The cells of the call matrix, one a line."""
    return [", ".join(f"{name} {value}" for name, value in row.items() if value is not None) for row in table]


def _failed(name: str, attention: str, result: ProbeResult) -> Verdict:
    return Verdict(
        outcome="failed",
        headline=clip(f"{name} {attention}: {result.outcome}, {result.message}"),
        measured=result.measured,
        limit=result.limit,
        unit="number",
        context=(result.message, *_cells(result.table)),
        witnesses=witness_rows(result.witnesses[:SHOWN]),
        more=max(0, len(result.witnesses) - SHOWN),
        advice=_ADVICE[result.outcome],
    )
