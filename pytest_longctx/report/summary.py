"""The summary at the end: check, measured, limit, headroom, verdict; trouble first."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_longctx.report.text import plain
from pytest_longctx.verdict import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ORDER = {"failed": 0, "error": 0, "warned": 1, "waived": 2, "skipped": 3, "passed": 4}
_NUMBERS = 46
_MOST_CAUSES = 3


def summary_lines(records: Sequence[tuple[str, dict[str, Any]]], width: int) -> Iterator[tuple[str, str]]:
    """(outcome, text) per check that has a limit or did not pass, sorted by trouble; then the others' count.

    Args:
        records: (node id, record of the verdict).
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
    yield from _decisions(records)
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


def _decisions(records: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, str]]:
    """Advance or hold, for each stage of a curriculum: hold as soon as one of its checks did not pass."""
    stages: dict[str, list[str]] = {}
    for name, record in records:
        _, _, identity = name.rpartition("curriculum::")
        if "curriculum::" in name:
            gate, _, stage = identity.partition("::")
            stages.setdefault(stage, []).extend([gate] * (record["outcome"] not in ("passed", "warned")))
    for stage, failed in stages.items():
        text = f"hold ({', '.join(failed)})" if failed else "advance"
        yield "failed" if failed else "passed", f"stage {stage}: {text}"


def _worth_telling(record: dict[str, Any]) -> bool:
    measured = record["unit"] != "offences" and record["limit"] is not None
    return measured if record["outcome"] in ("passed", "error") else True


def _room(record: dict[str, Any]) -> float:
    return float("inf") if record["headroom"] is None else float(record["headroom"])


def _line(name: str, record: dict[str, Any], width: int) -> str:
    name = name if len(name) <= width else "…" + name[1 - width :]
    room = "–" if record["headroom"] is None else f"{100 * record['headroom']:.0f} %"
    measured, limit = (shown(record[key], record["unit"]) for key in ("measured", "limit"))
    return f"{name:{width}} {measured:>10} {limit:>10} {room:>9}  {record['outcome']}"
