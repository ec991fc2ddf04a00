"""The JSON report: versioned, with a JSON Schema beside this module."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from pytest_longctx.errors import LongctxError
from pytest_longctx.report.run import count, verdict_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_longctx.report.run import ContractRun

VERSION = 1
EVIDENCE = ("ledger", "lengths", "window", "packing", "slices", "curriculum", "gpu", "offenders")


class ReportError(LongctxError):
    """A file is not a report that this release can read."""


def build(
    runs: Sequence[ContractRun], now: dt.datetime | None = None, *, complete: bool = True
) -> dict[str, Any]:
    """The report of a run: plain JSON values, described by `report.schema.json`.

    Args:
        now: with time zone; default the present moment.
        complete: False where the run stopped before its last check; its verdict is then never `passed`.
    """
    from pytest_longctx import __version__

    contracts = [_contract(run) for run in runs]
    counts = count(record for run in runs for record in run.records)
    moment = (now or dt.datetime.now(dt.timezone.utc)).astimezone(dt.timezone.utc)
    return {
        "report": VERSION,
        "generated": {
            "at": moment.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "by": f"pytest-longctx {__version__}",
        },
        "complete": complete,
        "verdict": verdict_of(counts) if complete or counts["failed"] else "error",
        "counts": counts,
        "contracts": contracts,
    }


def _contract(run: ContractRun) -> dict[str, Any]:
    contract, counts = run.contract, count(run.records)
    limits = contract.baseline.max_regression if contract.baseline else {}
    return {
        "path": contract.display,
        "name": contract.name or contract.path.stem,
        "description": contract.description,
        "sha256": contract.sha256,
        "verdict": verdict_of(counts),
        "counts": counts,
        "provenance": run.evidence.get("provenance"),
        "waivers": [waiver.model_dump(mode="json") for waiver in contract.waivers],
        "max_regression": dict(limits),
        "checks": list(run.records),
        "evidence": {name: run.evidence.get(name) for name in EVIDENCE},
    }


def dump(report: dict[str, Any]) -> bytes:
    """UTF-8 JSON with two blanks of indent; NaN and infinities become null."""
    return orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def load_report(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a report.

    Raises:
        ReportError: the file cannot be read, is no report, or is one of another version.
    """
    shown = os.fspath(path)
    try:
        report = orjson.loads(Path(path).read_bytes())
    except OSError as error:
        raise ReportError(f"{shown}: the report cannot be read: {error.strerror or error}") from None
    except orjson.JSONDecodeError as error:
        raise ReportError(
            f"{shown}: found no JSON ({error}), expected a report of --longctx-report"
        ) from None
    version = report.get("report") if isinstance(report, dict) else None
    if type(version) is not int or not isinstance(report.get("contracts"), list):
        raise ReportError(f"{shown}: found JSON that is no report, expected a file of --longctx-report")
    if version != VERSION:
        raise ReportError(
            f"{shown}: found report version {version}, expected {VERSION}: make it anew with this release"
        )
    loaded: dict[str, Any] = report
    return loaded


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write beside the target, then rename: readers see the old file or the new one, never a part.

    Raises:
        OSError: the folder cannot be made or written.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def _umask() -> int:
    """The process's mask; mkstemp makes files that nobody else may read."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
