"""A check: one invariant or limit of a contract, which becomes one pytest item."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_longctx.sections import SECTIONS
from pytest_longctx.verdict import Verdict, shown, told_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.extensions import Extensions
    from pytest_longctx.intervals import Interval
    from pytest_longctx.verdict import Number, Outcome, Unit
    from pytest_longctx.witness import Witness

SLICED = ("lengths", "window")
SHOWN = 5
_WITHOUT_SAMPLES = ("tokenizer", "dataset", "slice_counts", "stages", "gpu_record")


@dataclass(frozen=True)
class Check:
    """One check of one contract.

    key: where the contract asks for it. needs: the link of the evidence it looks at. least: whether its
    limit is a lower one. slice: the value of the slice column whose rows it looks at, None for all; part: the
    last word of its id where a check has several items.
    """

    section: str
    name: str
    key: tuple[str | int, ...]
    needs: str
    judge: Callable[[Evidence], Verdict]
    least: bool = False
    slice: str | None = None
    part: str = ""

    @property
    def id(self) -> str:
        """`section::name`, and `section::name::part` for a slice or another part of the check."""
        return "::".join(filter(None, (self.section, self.name, self.part)))

    def run(self, evidence: Evidence) -> Verdict:
        """The verdict.

        Raises:
            BrokenLinkError: a link that the check needs could not be made.
        """
        return self.judge(self.prepare(evidence))

    def prepare(self, evidence: Evidence) -> Evidence:
        """Make the link that the check needs; the evidence that it looks at."""
        evidence = evidence if self.slice is None else evidence.of_slice(self.slice)
        getattr(evidence, self.needs)
        # Whatever is said of no sample at all is true; only `rows` says that there is none.
        if self.needs not in _WITHOUT_SAMPLES and self.id != "dataset::rows":
            evidence.some_samples  # noqa: B018 - raises
        return evidence


def with_slices(checks: list[Check], slices: Mapping[str, str]) -> list[Check]:
    """Each limit on samples once more per slice. `slices` are names to values."""
    found = []
    for check in checks:
        found.append(check)
        if check.section in SLICED and check.key[1:2] in (("limits",), ("warn",)):
            found += [replace(check, part=name, slice=value) for name, value in slices.items()]
    return found


def checks_of(contract: Contract, extensions: Extensions | None = None) -> list[Check]:
    """All checks of a contract in the order of the sections, then registered ones; no data is touched."""
    found: list[Check] = []
    for section in SECTIONS:
        if getattr(contract, section) is not None:
            module = import_module(f"pytest_longctx.checks.{section}")
            found += module.checks(contract)
    if contract.dataset.slices is not None:
        from pytest_longctx.checks.slices import slice_check

        found.append(slice_check())
    if extensions and extensions.checks:
        from pytest_longctx.checks.custom import custom_checks

        found += custom_checks(extensions.checks)
    return found


def witness_rows(witnesses: Iterable[Witness]) -> tuple[dict[str, Any], ...]:
    """Witnesses as mappings, without the columns that none of them fills."""
    rows = [
        {
            "id": w.id,
            "row": w.row,
            "segment": w.segment,
            "position": w.position,
            "expected": w.expected,
            "found": w.found,
            "note": w.note or None,
        }
        for w in witnesses
    ]
    filled = {name for row in rows for name, value in row.items() if value is not None}
    return tuple({name: value for name, value in row.items() if name in filled} for row in rows)


def offence_verdict(
    name: str, count: int, witnesses: list[Witness], what: str, advice: str, allowed: int = 0
) -> Verdict:
    """An invariant's verdict: failed when more offences were found than are allowed.

    Args:
        what: the property that is broken, as in `3 × {what}`.
    """
    if count <= allowed:
        return Verdict("passed", f"{name} holds", count, allowed, "offences")
    return Verdict(
        outcome="failed",
        headline=clip(f"{name}: {count:,} × {what}"),
        measured=count,
        limit=allowed,
        unit="offences",
        witnesses=witness_rows(witnesses),
        more=count - len(witnesses),
        advice=advice,
    )


def limit_verdict(
    name: str,
    measured: Number,
    unit: Unit,
    limits: Mapping[str, Number | None],
    note: str = "",
    interval: Interval | None = None,
    **shows: Any,
) -> Verdict:
    """A limit's verdict: failed beyond the limit, warned beyond the warning.

    Args:
        limits: `limit` and `warn`, each None where the contract has none.
        interval: where only a sample of the rows was looked at; a limit inside it is undecided and fails.
        shows: context, witnesses, more and advice of the verdict if it does not pass.
    """
    if not math.isfinite(measured):
        # Every comparison with NaN is false: it would pass.
        return Verdict("failed", f"{name}: measured {measured}, which is no number", limit=limits["limit"])
    least = name.startswith("min_")
    outcomes: tuple[tuple[Outcome, str], ...] = (("failed", "limit"), ("warned", "warn"))
    for outcome, kind in outcomes:
        limit = limits[kind]
        if limit is None:
            continue
        if measured < limit if least else measured > limit:
            sign = "<" if least else ">"
            text = f"{name} {f' {sign} '.join(told_apart(measured, limit, unit))}"
            headline = clip(f"{text}  ({note})" if note else text)
            return Verdict(outcome, headline, measured, limit, unit, **_sampled(shows, interval))
        if interval and interval.decides(limit, least=least) is not True:
            rows = interval.rows_to_decide(limit)
            return undecided(name, outcome, interval, shown(limit, "ratio"), rows)
    limit = limits["limit"] if limits["limit"] is not None else limits["warn"]
    return Verdict("passed", f"{name} {shown(measured, unit)}", measured, limit, unit)


def _sampled(shows: dict[str, Any], interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return shows
    return {**shows, "context": (*shows.get("context", ()), _of_sample(interval))}


def _of_sample(interval: Interval) -> str:
    low, high = shown(interval.low, "ratio"), shown(interval.high, "ratio")
    return f"{interval.rows:,} rows drawn; with 95 % confidence between {low} and {high}"


def undecided(name: str, outcome: Outcome, interval: Interval, limit: str, rows: int | None) -> Verdict:
    """The value met the limit, but so few rows cannot tell of all of them; `rows` could."""
    wanted = f"draw about {rows:,} rows" if rows else "look at all rows"
    return Verdict(
        outcome,
        clip(f"{name}: {interval.rows:,} drawn rows cannot decide the limit {limit}"),
        interval.value,
        unit="ratio",
        context=(f"{shown(interval.value, 'ratio')} of what was drawn", _of_sample(interval)),
        advice=f"{wanted} (dataset.sample.rows), or leave dataset.sample out",
    )


def unavailable(evidence: Evidence, reason: str, *requirements: str) -> Verdict:
    """Skipped, because something is not to be had here; failed where the run requires it."""
    requirement = next(filter(evidence.settings.required.__contains__, requirements), "")
    if requirement:
        return Verdict(
            "failed",
            clip(f"{requirement} is required and cannot run here"),
            context=(reason,),
            advice=f"run where it is to be had, or without --longctx-require={requirement}",
        )
    return Verdict("skipped", reason)


def clip(text: str, width: int = 79) -> str:
    """A first line that is complete in 80 columns."""
    return text if len(text) <= width else text[: width - 1] + "…"


def limit_names(section: Any) -> list[str]:
    """The limits that a section sets, in `limits` or `warn`, in the order of the schema."""
    return [
        name
        for name in type(section.limits).model_fields
        if getattr(section.limits, name) is not None or getattr(section.warn, name) is not None
    ]


def both_limits(section: Any, name: str) -> dict[str, Number | None]:
    """The section's limit and warning of one name."""
    return {"limit": getattr(section.limits, name), "warn": getattr(section.warn, name)}


def limit_key(section_name: str, section: Any, name: str) -> tuple[str, str, str]:
    """Where the contract sets a limit."""
    return (section_name, "limits" if getattr(section.limits, name) is not None else "warn", name)
