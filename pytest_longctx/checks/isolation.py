"""Section isolation: do packed samples see each other, in the model, as it is called?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_longctx.checks.check import SHOWN, Check, clip, unavailable
from pytest_longctx.verdict import Verdict, shown

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.isolation import ProbeResult

QUESTIONS = ("logits", "gradients", "standalone", "loss", "call_matrix")
FLASH = ("flash_attention_2", "flash_attention_3")
_ADVICE = {
    "leaks": "pass position_ids without an all-ones mask and with use_cache False; where your training step "
    "does, say isolation.forward: {use_cache: false} in the contract; else take another collator or "
    "attention: docs/isolation.md has what isolates",
    "wrong": "isolated, but not what the sample alone gives: a dense mask over a sliding window loses the "
    "window; use a form of batch without a mask",
}


def checks(contract: Contract) -> list[Check]:
    """Each question once per attention implementation; of flash attention also its dispatch."""
    section = contract.isolation
    if section is None:
        return []
    return [
        Check(
            "isolation",
            name,
            ("isolation", "attention"),
            "probes",
            partial(ask, name, attention),
            part=attention,
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
        reason = f"{name} {attention}: {result.message}"
        return unavailable(evidence, reason, result.requirement, attention)
    if result.outcome == "isolated":
        return Verdict(
            "passed", f"{name} {attention}: {result.message}", result.measured, result.limit, "number"
        )
    return _failed(name, attention, result)


def _failed(name: str, attention: str, result: ProbeResult) -> Verdict:
    largest = "" if result.measured is None else f", by {shown(result.measured, 'number')}"
    rows = _cells(result) if name == "call_matrix" else _witnesses(result)
    return Verdict(
        outcome="failed",
        headline=clip(f"{name} {attention}: {result.outcome}{largest}"),
        measured=result.measured,
        limit=result.limit,
        unit="number",
        context=(result.message,),
        witnesses=rows,
        more=0 if name == "call_matrix" else max(0, len(result.witnesses) - SHOWN),
        advice=_ADVICE[result.outcome],
    )


def _cells(result: ProbeResult) -> tuple[dict[str, Any], ...]:
    """The calls of the matrix, the contract's own first."""
    rows = [{name: value for name, value in cell.items() if value != ""} for cell in result.table]
    return tuple(sorted(rows, key=lambda row: not row.get("contract")))


def _witnesses(result: ProbeResult) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"where": w.id, "position": w.position, "expected": w.expected, "found": w.found, "note": w.note}
        for w in result.witnesses[:SHOWN]
    )
