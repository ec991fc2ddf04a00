"""A check: one invariant or limit of a contract, which becomes one pytest item."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_longctx.verdict import Verdict, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.extensions import Extensions
    from pytest_longctx.verdict import Number, Unit
    from pytest_longctx.witness import Witness

SECTIONS = ("tokenizer", "dataset", "supervision", "lengths", "window", "packing")
SHOWN = 5


@dataclass(frozen=True)
class Check:
    """One check of one contract.

    key: where the contract asks for it. needs: the link of the evidence it looks at. least: whether its
    limit is a lower one.
    """

    section: str
    name: str
    key: tuple[str, ...]
    needs: str
    judge: Callable[[Evidence], Verdict]
    least: bool = False

    @property
    def id(self) -> str:
        """`section::name`."""
        return f"{self.section}::{self.name}"

    def run(self, evidence: Evidence) -> Verdict:
        """The verdict.

        Raises:
            BrokenLinkError: a link that the check needs could not be made.
        """
        getattr(evidence, self.needs)
        return self.judge(evidence)


def checks_of(contract: Contract, extensions: Extensions | None = None) -> list[Check]:
    """All checks of a contract in the order of the sections, then registered ones; no data is touched."""
    found: list[Check] = []
    for section in SECTIONS:
        if getattr(contract, section) is not None:
            module = import_module(f"pytest_longctx.checks.{section}")
            found += module.checks(contract)
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
    **shows: Any,
) -> Verdict:
    """A limit's verdict: failed beyond the limit, warned beyond the warning.

    Args:
        limits: `limit` and `warn`, each None where the contract has none.
        shows: context, witnesses, more and advice of the verdict if it does not pass.
    """
    least = name.startswith("min_")
    for outcome, kind in (("failed", "limit"), ("warned", "warn")):
        limit = limits[kind]
        if limit is not None and (measured < limit if least else measured > limit):
            sign = "<" if least else ">"
            text = f"{name} {shown(measured, unit)} {sign} {shown(limit, unit)}"
            headline = clip(f"{text}  ({note})" if note else text)
            return Verdict(outcome, headline, measured, limit, unit, **shows)  # type: ignore[arg-type]
    limit = limits["limit"] if limits["limit"] is not None else limits["warn"]
    return Verdict("passed", f"{name} {shown(measured, unit)}", measured, limit, unit)


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
