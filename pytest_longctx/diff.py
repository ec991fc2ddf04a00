"""What changed from one contract to another, or from one report to another: above all what got looser."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_longctx.errors import LongctxError
from pytest_longctx.verdict import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_longctx.contract import Contract

Kind = Literal["loosened", "removed", "tightened", "added", "changed", "moved"]
LOOSER = ("loosened", "removed")
# Keys whose larger value lets more through, beside those that start with max_ or end with tolerance.
_LARGER_IS_LOOSER = ("dataset.limits.", "baseline.max_regression.")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `loosened` and `removed` let through what was refused before."""

    kind: Kind
    where: str
    old: str
    new: str

    @property
    def loosens(self) -> bool:
        """Whether a run may now pass that failed before."""
        return self.kind in LOOSER

    def __str__(self) -> str:
        return f"{self.kind:9} {self.where}: {self.old} → {self.new}"


def changes(old: str, new: str) -> list[Change]:
    """Differences of two files, both reports (`.json`) or both contracts.

    Raises:
        LongctxError: a file cannot be read as what it is.
    """
    from pytest_longctx.contract import load_contract
    from pytest_longctx.report.json_report import load_report

    reports = [path.endswith(".json") for path in (old, new)]
    if all(reports):
        return report_changes(load_report(old), load_report(new))
    if any(reports):
        raise LongctxError(f"found a report and a contract, expected two of a kind: {old}, {new}")
    return contract_changes(load_contract(old), load_contract(new))


def contract_changes(old: Contract, new: Contract) -> list[Change]:
    """Differences of two contracts, the loosening ones first."""
    before, after = _checks(old), _checks(new)
    changes = [Change("removed", name, "checked", "not checked") for name in before if name not in after]
    changes += [Change("added", name, "not checked", "checked") for name in after if name not in before]
    changes += _keys(_flat(old), _flat(new))
    changes += _waivers(old, new)
    return sorted(changes, key=lambda change: not change.loosens)


def _checks(contract: Contract) -> list[str]:
    from pytest_longctx.checks import checks_of

    return [check.id for check in checks_of(contract)]


def _flat(contract: Contract) -> dict[str, Any]:
    """Dotted keys → values of what decides a verdict; names and waivers aside."""
    data = contract.model_dump(mode="json", by_alias=True)
    for name in ("contract", "name", "description", "waivers"):
        data.pop(name)
    return dict(_leaves("", data))


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(f"{prefix}.{name}" if prefix else name, inner)
    elif value is not None and value != {}:
        yield prefix, value


def _keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key), new.get(key)
        if before != after:
            yield Change(_kind(key, before, after), key, _text(before), _text(after))


def _kind(key: str, before: Any, after: Any) -> Kind:
    """Whether a change lets more through; `changed` where that cannot be told from the key."""
    direction = _direction(key)
    if key == "tokenizer.fingerprint":
        return "loosened" if after is None else "tightened" if before is None else "changed"
    if not direction:
        return "changed"
    free = direction * math.inf
    numbers = [free if value is None else value for value in (before, after)]
    if not all(isinstance(value, int | float) for value in numbers):
        return "changed"
    return "loosened" if direction * numbers[1] > direction * numbers[0] else "tightened"


def _direction(key: str) -> int:
    """1 where a larger value is looser, -1 where a smaller one is, 0 where neither is known."""
    name = key.rpartition(".")[2]
    if key.startswith(_LARGER_IS_LOOSER) or name.startswith("max_") or name.endswith("tolerance"):
        return 0 if name == "max_tokens_per_bin" else 1
    return -1 if name.startswith("min_") else 0


def _text(value: Any) -> str:
    return "none" if value is None else str(value)


def _waivers(old: Contract, new: Contract) -> Iterator[Change]:
    """A waiver that is new or lasts longer lets more through."""
    before = {waiver.check: waiver.until for waiver in old.waivers}
    after = {waiver.check: waiver.until for waiver in new.waivers}
    for check in dict.fromkeys([*before, *after]):
        was, now = before.get(check, dt.date.min), after.get(check, dt.date.min)
        if was != now:
            kind: Kind = "loosened" if now > was else "tightened"
            yield Change(kind, f"waiver of {check}", _until(was), _until(now))


def _until(day: dt.date) -> str:
    return "none" if day == dt.date.min else f"until {day.isoformat()}"


def report_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Differences of two JSON reports: removed checks, loosened limits, outcomes, moved metrics."""
    before, after = _records(old), _records(new)
    changes = [Change("removed", key, "checked", "not checked") for key in before if key not in after]
    changes += [Change("added", key, "not checked", "checked") for key in after if key not in before]
    for key in before:
        if key in after:
            changes += _record(key, before[key], after[key])
    return sorted(changes, key=lambda change: not change.loosens)


def _records(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        f"{entry['path']}::{record['check']}": record
        for entry in report["contracts"]
        for record in entry["checks"]
    }


def _record(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    unit = new["unit"]
    if old["limit"] != new["limit"]:
        free = -math.inf if new["least"] else math.inf
        before, after = (free if record["limit"] is None else record["limit"] for record in (old, new))
        looser = after < before if new["least"] else after > before
        texts = (shown(old["limit"], old["unit"]), shown(new["limit"], unit))
        yield Change("loosened" if looser else "tightened", f"limit of {key}", *texts)
    if old["outcome"] != new["outcome"]:
        yield Change("changed", key, old["outcome"], new["outcome"])
    if old["measured"] != new["measured"]:
        yield Change("moved", key, shown(old["measured"], old["unit"]), shown(new["measured"], unit))
