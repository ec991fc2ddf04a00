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
        return {**record, "waiver": None}
    status = judge(record["outcome"], waiver, today)
    told = {
        "until": waiver.until.isoformat(),
        "reason": waiver.reason,
        "ticket": waiver.ticket,
        "status": status,
    }
    changed: dict[str, Any] = {"waiver": told}
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


def waiver_problems(contract: Contract, checks: Collection[str]) -> Iterator[Problem]:
    """Waivers of checks that the contract does not have, and second waivers of one check.

    Args:
        checks: the ids of all checks of the contract, `section::name`; a waiver of a slice is accepted where
            its check is known.
    """
    seen: set[str] = set()
    for place, waiver in enumerate(contract.waivers):
        key = ("waivers", place, "check")
        plain = "::".join(waiver.check.split("::")[:2])
        if plain not in checks and waiver.check not in checks:
            yield problem(contract, key, unknown_check(waiver.check, checks))
        elif waiver.check in seen:
            yield problem(contract, key, f"found {waiver.check!r} again, expected each check once")
        seen.add(waiver.check)


def metric_problems(contract: Contract, checks: Collection[str]) -> Iterator[Problem]:
    """Metrics of `baseline.max_regression` that the contract does not measure."""
    for name in contract.baseline.max_regression if contract.baseline else ():
        if name not in checks and "::".join(name.split("::")[:2]) not in checks:
            yield problem(contract, ("baseline", "max_regression", name), unknown_check(name, checks))


def unknown_check(name: str, checks: Collection[str]) -> str:
    """What to say of a check name that the contract does not make."""
    near = difflib.get_close_matches(name, checks, 1)
    known = f"did you mean {near[0]!r}?" if near else f"its checks: {', '.join(sorted(checks))}"
    return f"the contract has no check {name!r}; {known}"


def problem(contract: Contract, key: tuple[str | int, ...], message: str) -> Problem:
    """A problem at a key of a contract that is sound by itself."""
    return Problem(contract.display, contract.line(*key), 1, ".".join(map(str, key)), message)
