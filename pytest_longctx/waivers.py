"""Waivers: a check may fail until a day, in UTC; then it fails again, and an unneeded waiver fails too."""

from __future__ import annotations

import datetime as dt
import difflib
from typing import TYPE_CHECKING, Any, Literal

from pytest_longctx.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pytest_longctx.contract import Contract, Waiver

Status = Literal["waived", "expired", "unneeded", "not_judged"]


def utc_today() -> dt.date:
    """The day that waivers are judged by, the same on every machine."""
    return dt.datetime.now(dt.timezone.utc).date()


def waiver_of(check: str, waivers: Sequence[Waiver]) -> Waiver | None:
    """The waiver that names this check, `section::name` or `section::name::slice`, exactly."""
    return next((waiver for waiver in waivers if waiver.check == check), None)


def in_force(waiver: Waiver, today: dt.date) -> bool:
    """Whether the check may fail today; the day named by `until` is the last one."""
    return today <= waiver.until


def judge(outcome: str, waiver: Waiver, today: dt.date) -> Status:
    """What a waiver means for a check with this outcome.

    waived: the check failed and may. expired: the waiver is over and excuses nothing. unneeded: the check
    holds, so the waiver must go. not_judged: skipped or in error, which no waiver excuses.
    """
    if not in_force(waiver, today):
        return "expired"
    if outcome == "failed":
        return "waived"
    return "unneeded" if outcome in ("passed", "warned") else "not_judged"


def apply(record: Mapping[str, Any], waivers: Sequence[Waiver], today: dt.date) -> dict[str, Any]:
    """The record with its waiver, and with the outcome that the waiver makes of it."""
    waiver = waiver_of(record["check"], waivers)
    if waiver is None:
        told = not_covered(record["check"], waivers) if record["outcome"] == "failed" else ""
        return {**record, "waiver": None, **({"context": [*record["context"], told]} if told else {})}
    status = judge(record["outcome"], waiver, today)
    entry = {
        "until": waiver.until.isoformat(),
        "reason": waiver.reason,
        "ticket": waiver.ticket,
        "status": status,
    }
    changed: dict[str, Any] = {"waiver": entry}
    if status == "waived":
        changed["outcome"] = "waived"
    elif status == "unneeded":
        changed |= {"outcome": "failed", "headline": unneeded_text(waiver), "advice": "remove the waiver"}
    elif status == "expired":
        changed["context"] = [*record["context"], expired_text(waiver)]
    return {**record, **changed}


def reason_text(waiver: Waiver) -> str:
    """Why a failing check is let pass, on one line."""
    ticket = f", {waiver.ticket}" if waiver.ticket else ""
    return f"waived until {waiver.until.isoformat()}: {waiver.reason}{ticket}"


def unneeded_text(waiver: Waiver) -> str:
    """What to say of a check that holds in spite of its waiver."""
    return f"{waiver.check.partition('::')[2]} holds: its waiver is not needed"


def expired_text(waiver: Waiver) -> str:
    """What to say once the day is over."""
    ticket = f" ({waiver.ticket})" if waiver.ticket else ""
    return f"the waiver is over since the end of {waiver.until.isoformat()} UTC: {waiver.reason}{ticket}"


def not_covered(check: str, waivers: Sequence[Waiver]) -> str:
    """What to say of a check without a waiver, where one names its whole or a part of it; else nothing."""
    if waiver_of(check, waivers):
        return ""
    whole = _whole(check)
    for waiver in waivers:
        if check != whole == waiver.check:
            return f"the waiver of {whole} covers all rows together, not a slice: that takes one of its own"
        if check == whole == _whole(waiver.check):
            return f"the waiver of {waiver.check} covers that slice alone, not all rows together"
    return ""


def _whole(check: str) -> str:
    """`section::name`, whatever part of it the id names."""
    return "::".join(check.split("::")[:2])


def waiver_problems(contract: Contract, checks: Collection[str]) -> Iterator[Problem]:
    """Waivers of checks that the contract does not have, and second waivers of one check.

    Args:
        checks: the ids of all checks of the contract, slices aside; which slices there are is known once the
            rows are read: see `slice_problems`.
    """
    seen: set[str] = set()
    for place, waiver in enumerate(contract.waivers):
        key = ("waivers", place, "check")
        if reason := unknown_check(waiver.check, checks, contract):
            yield problem(contract, key, reason)
        elif waiver.check in seen:
            yield problem(contract, key, f"found {waiver.check!r} again, expected each check once")
        seen.add(waiver.check)


def metric_problems(contract: Contract, checks: Collection[str]) -> Iterator[Problem]:
    """Metrics of `baseline.max_regression` that the contract does not measure."""
    for name in contract.baseline.max_regression if contract.baseline else ():
        if reason := unknown_check(name, checks, contract):
            yield problem(contract, ("baseline", "max_regression", name), reason)


def slice_problems(contract: Contract, checks: Collection[str], slices: Collection[str]) -> Iterator[Problem]:
    """Waivers and metrics of slices that the rows do not have.

    Args:
        checks: as for `waiver_problems`, which has accepted the names.
        slices: names of the slices, as node ids have them; none where they could not be read.
    """
    metrics = contract.baseline.max_regression if contract.baseline else ()
    named: list[tuple[tuple[str | int, ...], str]] = [
        *((("waivers", place, "check"), waiver.check) for place, waiver in enumerate(contract.waivers)),
        *((("baseline", "max_regression", name), name) for name in metrics),
    ]
    for key, name in named:
        part = name.removeprefix(f"{_whole(name)}::")
        if slices and name not in checks and part not in slices:
            known = f"they have {', '.join(sorted(slices))}"
            yield problem(
                contract, key, f"the rows have no slice {part!r}; {_nearest(part, slices) or known}"
            )


def unknown_check(name: str, checks: Collection[str], contract: Contract) -> str:
    """What to say of a name that is neither a check of the contract nor a slice of one; else nothing."""
    whole = _whole(name)
    if name in checks or (name != whole and _is_sliced(whole, contract) and whole in checks):
        return ""
    if name != whole and whole in checks:
        if contract.dataset.slices is None:
            return f"{name!r} is of a slice, but the contract has no dataset.slices; the check is {whole!r}"
        return f"{whole!r} has no slices, only limits of lengths and window have: name the check alone"
    known = f"its checks: {', '.join(sorted(checks))}"
    told = f"the contract has no check {name!r}; {_nearest(name, checks) or known}"
    sliced = next((check for check in sorted(checks) if _is_sliced(check, contract)), "")
    return f"{told} (one slice of a limit: '{sliced}::SLICE')" if sliced else told


def _is_sliced(check: str, contract: Contract) -> bool:
    """Whether the check, `section::name`, has one item more a slice."""
    from pytest_longctx.checks.check import SLICED, limit_names

    section, _, name = check.partition("::")
    terms = getattr(contract, section) if section in SLICED and contract.dataset.slices else None
    return terms is not None and name in limit_names(terms)


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]!r}?" if near else ""


def problem(contract: Contract, key: tuple[str | int, ...], message: str) -> Problem:
    """A problem at a key of a contract that is sound by itself."""
    return Problem(contract.display, contract.line(*key), 1, ".".join(map(str, key)), message)
