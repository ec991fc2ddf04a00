"""What a run found of one contract, as plain data, in the order in which people want to read it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_longctx.check import Report
    from pytest_longctx.contract import Contract

OUTCOMES = ("error", "failed", "warned", "waived", "skipped", "passed")  # trouble first
TROUBLE = {"error": "could not be judged", "failed": "failed", "warned": "warned", "waived": "waived"}


@dataclass(frozen=True)
class ContractRun:
    """A contract, the records of its checks (`report.record`), and the summary of its evidence."""

    contract: Contract
    records: list[dict[str, Any]]
    evidence: dict[str, Any] = field(default_factory=dict)


def run_of(report: Report, evidence: dict[str, Any] | None = None) -> ContractRun:
    """The run behind `check_contract`, for reports without pytest."""
    from pytest_longctx.report.record import placed, to_record, unjudged
    from pytest_longctx.waivers import apply, utc_today

    records = []
    for result in report.results:
        verdict = result.verdict
        plain = to_record(result.check, verdict) if verdict else unjudged(result.check, "error", result.error)
        record = placed(plain, result.check, report.contract)
        records.append(apply(record, report.contract.waivers, utc_today()))
    return ContractRun(report.contract, records, evidence or {})


def count(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Records by outcome, every outcome named."""
    counts = Counter(record["outcome"] for record in records)
    return {outcome: counts[outcome] for outcome in OUTCOMES}


def verdict_of(counts: Mapping[str, int]) -> str:
    """`error` before `failed` before `warned`; `passed` only if at least one check passed."""
    for outcome in ("error", "failed", "warned"):
        if counts[outcome]:
            return outcome
    return "passed" if counts["passed"] else "skipped"


def by_trouble(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Trouble first, then the least headroom, then the order of the checks."""

    def rank(record: Mapping[str, Any]) -> tuple[int, float]:
        room = record["headroom"]
        return OUTCOMES.index(record["outcome"]), float("inf") if room is None else float(room)

    return sorted(records, key=rank)


def in_order(records: Iterable[dict[str, Any]], checks: Sequence[str]) -> list[dict[str, Any]]:
    """Records in the order of the contract's checks, whoever ran them first; parts follow their check."""
    places = {check: place for place, check in enumerate(checks)}

    def rank(record: Mapping[str, Any]) -> tuple[int, str]:
        whole = "::".join(record["check"].split("::")[:2])
        return places.get(record["check"], places.get(whole, len(places))), record["check"]

    return sorted(records, key=rank)


def joined(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records; checks that one cause left unjudged become one, with all their names in `also`."""
    causes: dict[str, list[str]] = {}
    first: list[dict[str, Any]] = []
    for record in records:
        names = causes.setdefault(record["error"] or record["check"], [])
        names.append(record["check"])
        if len(names) == 1:
            first.append({**record, "also": names})
    return [{**record, "also": record["also"] if len(record["also"]) > 1 else []} for record in first]


def is_measure(record: Mapping[str, Any]) -> bool:
    """Whether the check compares a number with a limit, and does not only count offences."""
    return record["limit"] is not None and record["unit"] != "offences"


def sentence(counts: Mapping[str, int]) -> tuple[str, str]:
    """The verdict in words, the worst first: `2 of 39 checks failed`, `1 warned`."""
    total = sum(counts.values())
    told = [(counts[outcome], TROUBLE[outcome]) for outcome in TROUBLE if counts[outcome]]
    left_out = [(counts["skipped"], "skipped")] if counts["skipped"] else []
    if told:
        (first, word), *rest = told
        verdict = f"{first:,} of {_checks(total)} {word}"
    else:
        rest, verdict = [], f"{_checks(counts['passed'])} {'holds' if counts['passed'] == 1 else 'hold'}"
    return verdict, ", ".join(f"{number:,} {other}" for number, other in [*rest, *left_out])


def _checks(number: int) -> str:
    return "1 check" if number == 1 else f"{number:,} checks"
