"""A verdict as one plain JSON mapping: what the summary and all reports are made of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_longctx.verdict import headroom

if TYPE_CHECKING:
    from pytest_longctx.checks import Check
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.verdict import Verdict


def to_record(check: Check, verdict: Verdict) -> dict[str, Any]:
    """What the summary and the reports need of a verdict; NaN and infinities as null."""
    return {
        "check": check.id,
        "outcome": verdict.outcome,
        "headline": verdict.headline,
        "measured": finite(verdict.measured),
        "limit": finite(verdict.limit),
        "unit": verdict.unit,
        "headroom": finite(headroom(verdict, least=check.least)),
        "least": check.least,
        "context": list(verdict.context),
        "witnesses": [{name: finite(value) for name, value in row.items()} for row in verdict.witnesses],
        "more": max(0, verdict.more),
        "advice": verdict.advice,
        "error": None,
    }


def unjudged(check: Check, outcome: str, text: str) -> dict[str, Any]:
    """The record of a check without a verdict.

    Args:
        outcome: `error` where its evidence could not be made or its code failed, else `skipped`.
        text: why; its first line becomes the headline.
    """
    return {
        "check": check.id,
        "outcome": outcome,
        "headline": next(iter(text.strip().splitlines()), f"{check.name}: not judged"),
        "measured": None,
        "limit": None,
        "unit": "number",
        "headroom": None,
        "least": check.least,
        "context": [],
        "witnesses": [],
        "more": 0,
        "advice": "",
        "error": text if outcome == "error" else None,
    }


COLLECTION = "contract::collection"


def lost(contract: Contract, identity: str, value: str | None, text: str) -> dict[str, Any]:
    """The record of a check whose process died; without an identity, of the collection of its contract.

    Args:
        value: of its slice, None for all rows.
        text: what pytest says of it.
    """
    from pytest_longctx.checks import Check, checks_of
    from pytest_longctx.waivers import apply, utc_today

    section, name, part = [*(identity or COLLECTION).split("::", 2), "", ""][:3]
    known = {check.id: check for check in checks_of(contract)} if identity else {}
    # A registered check is not among those of the contract alone.
    other = Check(section, name, ("contract",), "dataset", _never_judged)
    check = known.get(identity) or known.get(f"{section}::{name}") or other
    check = replace(check, part=part, slice=value)
    record = placed(unjudged(check, "error", text), check, contract)
    return apply(record, contract.waivers, utc_today())


def _never_judged(evidence: Evidence) -> Verdict:
    raise AssertionError("the check is lost")


def placed(record: dict[str, Any], check: Check, contract: Contract) -> dict[str, Any]:
    """The record with its place: contract, line from 1, section, name, value of the slice column.

    Where the contract has no such section, the context of what did not pass says so.
    """
    absent = absent_section(check, contract) if record["outcome"] != "passed" else ""
    return {
        **record,
        "context": [*filter(None, [absent]), *record["context"]],
        "contract": contract.display,
        "line": line_of(check, contract),
        "section": check.section,
        "name": "::".join(filter(None, (check.name, check.part))),
        "slice": check.slice,
        "waiver": record.get("waiver"),
    }


def line_of(check: Check, contract: Contract) -> int:
    """The line, from 1, that asks for the check; the one of `contract:` where its section is absent."""
    return contract.line("contract") if absent_section(check, contract) else contract.line(*check.key)


def absent_section(check: Check, contract: Contract) -> str:
    """What to say of a check whose section the contract leaves to its defaults; else nothing."""
    return "" if given(contract, check.key) else f"no section {check.key[0]}: its defaults hold"


def given(contract: Contract, key: tuple[str | int, ...]) -> int:
    """How many of the key's parts, from the first, the contract's file has; the rest are defaults."""
    value: Any = contract
    for depth, part in enumerate(key):
        if isinstance(part, str) and part not in getattr(value, "model_fields_set", (part,)):
            return depth
        value = value[part] if isinstance(part, int) else getattr(value, part, None)
    return len(key)


def finite(value: Any) -> Any:
    """None for a number that JSON has no word for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
