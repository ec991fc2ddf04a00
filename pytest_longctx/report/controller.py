"""All files that a run was asked for, written once at its end by the process that saw everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import LongctxError
from pytest_longctx.report.json_report import build, dump, load_report, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pytest_longctx.report.run import ContractRun


@dataclass(frozen=True)
class ReportPaths:
    """Where a run's reports go; None for those that nobody asked for."""

    report: Path | None = None
    html: Path | None = None
    ledger: Path | None = None
    baseline: Path | None = None
    update_baseline: bool = False

    def fault(self) -> str:
        """What is wrong with the paths, before anything runs; empty when nothing is."""
        if self.update_baseline and self.baseline is None:
            return "--longctx-update-baseline needs --longctx-baseline=FILE, the file to renew"
        for option in ("report", "html", "ledger", "baseline"):
            path: Path | None = getattr(self, option)
            if path is not None and path.is_dir():
                return f"--longctx-{option}: {path} is a folder, expected a file"
        if self.baseline and not self.update_baseline:
            return _baseline_fault(self.baseline)
        return ""


def _baseline_fault(path: Path) -> str:
    if not path.exists():
        return (
            f"--longctx-baseline: there is no file {path}; "
            "make it on the main branch with --longctx-update-baseline"
        )
    try:
        load_report(path)
    except LongctxError as error:
        return f"--longctx-baseline: {error}"
    return ""


@dataclass
class Written:
    """What to tell of the writing: lines for people, commands for GitHub, whether the run fails by it."""

    report: dict[str, Any]
    lines: list[tuple[str, str]] = field(default_factory=list)  # (outcome, text)
    commands: list[str] = field(default_factory=list)
    failed: bool = False

    def tell(self, outcome: str, text: str) -> None:
        """Add a line; one of outcome `failed` fails the run."""
        self.lines.append((outcome, text))
        self.failed = self.failed or outcome == "failed"


def write_all(
    runs: Sequence[ContractRun],
    paths: ReportPaths,
    environ: Mapping[str, str],
    known: Mapping[str, Collection[str]] | None = None,
    parts: Sequence[Path] = (),
    *,
    complete: bool = True,
) -> Written:
    """Build the report and write what is asked for; a file that cannot be written is told, and fails the run.

    Args:
        environ: GITHUB_ACTIONS, GITHUB_STEP_SUMMARY and GITHUB_WORKSPACE are read.
        known: contract path → ids of all its checks, run or not, for the baseline.
        parts: ledgers that `ledger_file.write_part` wrote, one a contract.
        complete: False where the run stopped before its last check, or lost one.
    """
    written = Written(build(runs, complete=complete))
    _compare(written, paths, known or {})
    if paths.report is not None:
        _write(written, "report", paths.report, lambda: dump(written.report))
    if paths.html is not None:
        _write(written, "HTML report", paths.html, lambda: _html(written.report))
    if paths.ledger is not None:
        _ledger(written, paths.ledger, parts)
    if environ.get("GITHUB_ACTIONS") == "true":
        _github(written, environ)
    return written


def _compare(written: Written, paths: ReportPaths, known: Mapping[str, Collection[str]]) -> None:
    from pytest_longctx.baseline import compare, slim, unusable

    if paths.baseline is None:
        return
    if not paths.update_baseline:
        for move in compare(load_report(paths.baseline), written.report, known):
            written.tell("failed" if move.fails else "warned" if move.kind == "better" else "", str(move))
    elif reason := unusable(written.report, known):
        written.tell("failed", reason)
    else:
        _write(written, "baseline", paths.baseline, lambda: dump(slim(written.report)))


def _html(report: Mapping[str, Any]) -> bytes:
    from pytest_longctx.report.html import page

    return page(report).encode()


def _write(written: Written, what: str, path: Path, content: Callable[[], bytes]) -> None:
    try:
        write_atomically(path, content())
    except OSError as error:
        written.tell("failed", f"the {what} was not written to {path}: {error.strerror or error}")
    else:
        written.tell("", f"{what}: {path}")


def _ledger(written: Written, path: Path, parts: Sequence[Path]) -> None:
    from pytest_longctx.report.ledger_file import combine

    if not parts:
        written.tell("failed", f"the ledger was not written to {path}: no check of this run measured samples")
        return
    try:
        rows = combine(parts, path)
    except OSError as error:
        written.tell("failed", f"the ledger was not written to {path}: {error.strerror or error}")
    else:
        written.tell("", f"ledger: {path} ({rows:,} samples)")


def _github(written: Written, environ: Mapping[str, str]) -> None:
    """Commands for the log, and the step summary, which other steps may have begun."""
    from pytest_longctx.report.github import step_summary, workflow_commands

    notes = [text for outcome, text in written.lines if outcome == "failed"]
    written.commands = workflow_commands(written.report, environ.get("GITHUB_WORKSPACE"), notes)
    target = environ.get("GITHUB_STEP_SUMMARY")
    if not target:
        return
    try:
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(step_summary(written.report, notes))
    except OSError as error:
        written.tell("failed", f"the step summary was not written: {error.strerror or error}")
