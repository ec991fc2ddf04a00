"""A run against the report of main: how far each metric may get worse, and what got so much better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_longctx.report.record import COLLECTION
from pytest_longctx.verdict import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Kind = Literal["worse", "vanished", "better", "new", "not_measured"]
FAILING = ("worse", "vanished")
# A move that is exactly at its bound in decimal may miss it by rounding, as in 0.012 - 0.010 > 0.002.
TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Move:
    """One difference from the baseline; `worse` and `vanished` fail the run, the others are told."""

    contract: str
    check: str
    kind: Kind
    text: str

    @property
    def fails(self) -> bool:
        """Whether the run fails by it."""
        return self.kind in FAILING

    def __str__(self) -> str:
        return (
            f"{self.contract}::{self.check}: {self.text}" if self.check else f"{self.contract}: {self.text}"
        )


def compare(
    baseline: Mapping[str, Any], report: Mapping[str, Any], known: Mapping[str, Collection[str]]
) -> list[Move]:
    """Compare a report with a baseline, both as `json_report.build` makes them; failures first.

    Args:
        known: contract path → ids of all checks that it has, run or not: a deselected check has not vanished.
    """
    contracts = {entry["path"]: entry for entry in report["contracts"]}
    moves: list[Move] = []
    for entry in baseline["contracts"]:
        path = entry["path"]
        if path not in contracts:
            told = "the baseline has this contract, and the run has not; " + _RENEW
            moves.append(Move(path, "", "vanished", told))
            continue
        moves += _contract(entry, contracts[path], known.get(path, ()))
    before = {entry["path"] for entry in baseline["contracts"]}
    moves += [
        Move(path, "", "new", f"not in the baseline; {_RENEW}") for path in contracts if path not in before
    ]
    return sorted(moves, key=lambda move: not move.fails)


_RENEW = "if that is wanted, renew it with --longctx-update-baseline"


def _contract(before: Mapping[str, Any], after: Mapping[str, Any], known: Collection[str]) -> Iterator[Move]:
    if any(record["check"] == COLLECTION for record in after["checks"]):
        yield Move(after["path"], "", "not_measured", "not collected in this run, so not compared")
        return
    if not after["checks"]:
        yield Move(after["path"], "", "not_measured", "no check ran, so not compared")
        return
    old = {record["check"]: record for record in before["checks"]}
    new = {record["check"]: record for record in after["checks"]}
    for check in old:
        if check not in new and not _deselected(check, new, known):
            yield Move(after["path"], check, "vanished", f"the check is gone; {_RENEW}")
    for check, allowed in after["max_regression"].items():
        move = _metric(old.get(check), new.get(check), allowed)
        if move is not None:
            yield Move(after["path"], check, *move)


def _deselected(check: str, new: Collection[str], known: Collection[str]) -> bool:
    """Whether the contract still has the check, and this run left it out; a part goes with its check."""
    whole = "::".join(check.split("::")[:2])
    return check in known or (whole in known and whole not in new)


def _metric(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, allowed: float
) -> tuple[Kind, str] | None:
    """What to say of one metric; None while it stays within its bound."""
    if new is None or new["measured"] is None:
        return "not_measured", "not measured in this run, so not compared"
    if old is None or old["measured"] is None:
        return "new", f"no value in the baseline; {_RENEW}"
    worse = old["measured"] - new["measured"] if new["least"] else new["measured"] - old["measured"]
    slack = allowed + TOLERANCE * max(1.0, abs(old["measured"]))
    unit = new["unit"]
    moved = f"{shown(old['measured'], unit)} → {shown(new['measured'], unit)}"
    size, bound = (
        f"{100 * n:.3g} points" if unit == "ratio" else shown(n, unit) for n in (abs(worse), allowed)
    )
    if worse > slack:
        return "worse", f"{moved}, worse by {size}; max_regression allows {bound}"
    if -worse > slack:
        return "better", f"{moved}, better by {size}: renew the baseline, or this gain may be lost unseen"
    return None


def slim(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report as a baseline keeps it: without evidence, witnesses and advice."""
    bare: dict[str, Any] = {"context": [], "witnesses": [], "more": 0, "advice": ""}
    contracts = [
        {
            **entry,
            "evidence": dict.fromkeys(entry["evidence"]),
            "checks": [{**record, **bare} for record in entry["checks"]],
        }
        for entry in report["contracts"]
    ]
    return {**report, "contracts": contracts}


def unusable(report: Mapping[str, Any], known: Mapping[str, Collection[str]]) -> str:
    """Why a run must not become the baseline, or nothing; `known` as for `compare`."""
    broken = [
        record["check"] for entry in report["contracts"] for record in entry["checks"] if record["error"]
    ]
    if broken:
        return f"the baseline was not renewed: {_checks(broken)} could not be judged, first {broken[0]}"
    if not report["complete"]:
        return "the baseline was not renewed: the run stopped before its last check"
    if left_out := [check for entry in report["contracts"] for check in _left_out(entry, known)]:
        return (
            f"the baseline was not renewed: {_checks(left_out)} did not run, first {left_out[0]}; "
            "renew it by a run of all checks"
        )
    return "" if report["contracts"] else "the baseline was not renewed: no check ran"


def _left_out(entry: Mapping[str, Any], known: Mapping[str, Collection[str]]) -> list[str]:
    ran = {record["check"] for record in entry["checks"]}
    return [check for check in known.get(entry["path"], ()) if check not in ran]


def _checks(names: Collection[str]) -> str:
    return "1 check" if len(names) == 1 else f"{len(names):,} checks"
