"""The summary at the end: check, measured, limit, headroom, verdict; trouble first."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_longctx.report.text import plain
from pytest_longctx.verdict import shown_headroom, told_apart

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_ORDER = {"failed": 0, "error": 0, "warned": 1, "waived": 2, "skipped": 3, "passed": 4}
_NUMBERS = 46
_MOST_CAUSES = 3


def summary_lines(
    records: Sequence[tuple[str, dict[str, Any]]], width: int, known: Mapping[str, Collection[str]]
) -> Iterator[tuple[str, str]]:
    """(outcome, text) per check that has a limit or did not pass, sorted by trouble; then the others' count.

    Args:
        records: (node id, record of the verdict).
        known: contract path → ids of all its checks, run or not.
    """
    contracts = {name.partition("::")[0] for name, _ in records}
    told = [
        (name if len(contracts) > 1 else name.partition("::")[2], record)
        for name, record in records
        if _worth_telling(record)
    ]
    told.sort(key=lambda pair: (_ORDER[pair[1]["outcome"]], _room(pair[1])))
    names = min(max(len("check"), *(len(name) for name, _ in told), 0), max(24, width - _NUMBERS))
    if told:
        yield "", f"{'check':{names}} {'measured':>10} {'limit':>10} {'headroom':>9}  verdict"
    for name, record in told:
        yield record["outcome"], _line(plain(name), record, names)
    yield from _decisions([record for _, record in records], known)
    for _, record in records:
        if record["check"] == "gpu::length_curve" and record["outcome"] == "passed":
            yield from (("", plain(line)) for line in record["context"])
    errors = [record for _, record in records if record["outcome"] == "error"]
    yield from (("error", line) for line in _unjudged(errors, width))
    quiet = len(records) - len(told) - len(errors)
    if quiet:
        yield "", f"{_checks(quiet, 'more ' if told else '')} passed"


def _unjudged(errors: Sequence[dict[str, Any]], width: int) -> Iterator[str]:
    """How many checks have no verdict, and the first line of each cause; all of it stands with the first."""
    causes = Counter((record["error"] or record["headline"]).strip().partition("\n")[0] for record in errors)
    for cause, number in causes.most_common(_MOST_CAUSES):
        told = f"{_checks(number)} could not be judged: {plain(cause)}"
        yield from textwrap.wrap(told, max(width, 40), subsequent_indent="  ", break_on_hyphens=False)
    if left := sum(causes.values()) - sum(number for _, number in causes.most_common(_MOST_CAUSES)):
        yield f"{_checks(left, 'more ')} could not be judged for other reasons"


def _checks(number: int, more: str = "") -> str:
    return f"{number} {more}check{'' if number == 1 else 's'}"


def _decisions(
    records: Sequence[dict[str, Any]], known: Mapping[str, Collection[str]]
) -> Iterator[tuple[str, str]]:
    """Advance or hold, for each stage of a curriculum: hold as soon as one of its gates did not pass.

    Gates that did not run might have held the stage, so without them nothing else is decided.
    """
    stages: dict[tuple[str, str], dict[str, bool]] = {}
    for record in records:
        if stage := _stage(record["check"]):
            gates = stages.setdefault((record["contract"], stage), {})
            gates[record["check"].split("::")[1]] = record["outcome"] in ("passed", "warned")
    several = len({record["contract"] for record in records}) > 1
    for (contract, stage), gates in stages.items():
        failed = [gate for gate, passed in gates.items() if not passed]
        total = max(len(gates), sum(_stage(check) == stage for check in known.get(contract, ())))
        name = f"{plain(contract)}: stage {stage}" if several else f"stage {stage}"
        if failed:
            yield "failed", f"{name}: hold ({', '.join(failed)})"
        elif len(gates) < total:
            yield "", f"{name}: not decided ({len(gates)} of {total} gates ran)"
        else:
            yield "passed", f"{name}: advance"


def _stage(check: str) -> str:
    """The stage that a check is a gate of; nothing where it is no gate."""
    section, *rest = check.split("::", 2)
    return rest[-1] if section == "curriculum" else ""


def _worth_telling(record: dict[str, Any]) -> bool:
    measured = record["unit"] != "offences" and record["limit"] is not None
    return measured if record["outcome"] in ("passed", "error") else True


def _room(record: dict[str, Any]) -> float:
    return float("inf") if record["headroom"] is None else float(record["headroom"])


def _line(name: str, record: dict[str, Any], width: int) -> str:
    name = name if len(name) <= width else "…" + name[1 - width :]
    room = shown_headroom(record["headroom"])
    measured, limit = told_apart(record["measured"], record["limit"], record["unit"])
    return f"{name:{width}} {measured:>10} {limit:>10} {room:>9}  {record['outcome']}"
