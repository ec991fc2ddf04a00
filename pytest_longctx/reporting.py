"""What feeds the reports: items attach plain data, the controller gathers and writes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_longctx.collected import Collected

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_longctx.contract import Contract
    from pytest_longctx.nodes import CheckItem
    from pytest_longctx.report.controller import ReportPaths, Written

FILES = {
    "report": "write a JSON report",
    "html": "write a self-contained HTML report",
    "ledger": "write the ledger, one row a sample, as Parquet",
    "baseline": "compare with this JSON report of the main branch, by the contract's baseline.max_regression",
}
# Names of properties that no test of a user's takes for its own.
RECORD, EVIDENCE = "_longctx_record", "_longctx_evidence"


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Options and ini keys of the reports."""
    for name, purpose in FILES.items():
        group.addoption(f"--longctx-{name}", metavar="FILE", default=None, help=purpose)
    group.addoption(
        "--longctx-update-baseline",
        action="store_true",
        default=False,
        help="write the file of --longctx-baseline anew instead of comparing with it",
    )
    parser.addini(
        "longctx_junit_properties",
        "write measured value and limit of each check into JUnit XML",
        type="bool",
        default=True,
    )


def records_of(reporter: Any) -> list[tuple[str, dict[str, Any]]]:
    """The records of all checks that have a result, by node id."""
    return [
        (report.nodeid, value)
        for reports in reporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call" or getattr(report, "failed", False)
        for name, value in getattr(report, "user_properties", ())
        if name == RECORD
    ]


class Reporting:
    """Hooks of one run, in a worker as in the controller.

    records: node id → record; evidence: contract path → summary; parts: contract path → where its ledger is.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.asked = any(config.getoption(f"longctx_{name}") for name in FILES)
        self.junit = bool(config.getini("longctx_junit_properties"))
        self.on_github = os.environ.get("GITHUB_ACTIONS") == "true"
        self.records: dict[str, dict[str, Any]] = {}
        self.evidence: dict[str, dict[str, Any]] = {}
        self.parts: dict[str, dict[str, Any]] = {}
        self.collected = Collected(config)
        self.lost: list[tuple[str, Contract, dict[str, Any]]] = []
        self.written: Written | None = None
        update = config.getoption("longctx_update_baseline")
        if (self.asked or update) and (fault := self.paths().fault()):
            raise pytest.UsageError(fault)

    def paths(self) -> ReportPaths:
        """The options as absolute paths."""
        from pytest_longctx.report.controller import ReportPaths

        folder, update = self.config.invocation_params.dir, self.config.getoption("longctx_update_baseline")
        given = {name: self.config.getoption(f"longctx_{name}") for name in FILES}
        paths = {name: folder / value if value else None for name, value in given.items()}
        return ReportPaths(**paths, update_baseline=update)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """A check with a waiver in force may fail, and must: strict, and only by its verdict."""
        if "longctx" in item.keywords:
            _waive(item)

    def _is_wanted(self) -> bool:
        """Whether anybody reads the report: an option, or a hook."""
        return self.asked or bool(self.config.hook.pytest_longctx_report.get_hookimpls())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        """Complete a check's record, or make the record of a check without a verdict."""
        report = yield
        if report.when != "teardown" and "longctx" in item.keywords:
            _complete(item, report)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """With the last item of a contract in this process goes the summary of its evidence."""
        if self._is_wanted() and "longctx" in item.keywords:
            _attach(item, nextitem, self.paths().ledger)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather what the items attached, in the controller; JUnit XML gets numbers in its place."""
        if hasattr(self.config, "workerinput"):
            return
        for name, value in report.user_properties:
            if name == RECORD and isinstance(value, dict) and "line" in value:
                self.records[report.nodeid] = value
            elif name == EVIDENCE and isinstance(value, dict):
                self._gather(value)
        if report.when == "teardown":
            report.user_properties = self._for_junit(report.user_properties)

    def _gather(self, value: dict[str, Any]) -> None:
        from pytest_longctx.report.evidence_summary import merge

        path = value["contract"]
        known = self.evidence.get(path)
        self.evidence[path] = merge(known, value["summary"]) if known else value["summary"]
        if value["part"]:
            self._keep_part(path, value)

    def _keep_part(self, path: str, value: dict[str, Any]) -> None:
        """Of the ledgers of several processes one that knows the packed rows, else the first."""
        kept, other = self.parts.get(path, value), value
        if value["audited"] and not kept["audited"]:
            kept, other = value, kept
        self.parts[path] = kept
        if other["part"] != kept["part"]:
            Path(other["part"]).unlink(missing_ok=True)

    def _for_junit(self, properties: list[tuple[str, object]]) -> list[tuple[str, object]]:
        kept: list[tuple[str, object]] = []
        for name, value in properties:
            if name == RECORD and isinstance(value, dict) and self.junit:
                told = {key: value.get(key) for key in ("outcome", "measured", "limit", "unit")}
                kept += [(f"longctx_{key}", said) for key, said in told.items() if said is not None]
            elif name not in (RECORD, EVIDENCE):
                kept.append((name, value))
        return kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write, in the controller only; a file not written and a value worse than main's fail the run."""
        if hasattr(self.config, "workerinput"):
            return
        if self.collected.failures or self.collected.died:
            self.lost = list(self.collected.unrecorded(self._registered(), self.records))
            self.records |= {nodeid: record for nodeid, _, record in self.lost}
        if not (self._is_wanted() or (self.on_github and self.records)):
            return
        whole = session.exitstatus in _ENDED and not (session.shouldfail or session.shouldstop or self.lost)
        self.written = self._write(complete=whole)
        self.config.hook.pytest_longctx_report(report=self.written.report)
        if self.written.failed and session.exitstatus in _ENDED:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write(self, *, complete: bool) -> Written:
        from pytest_longctx.report.controller import write_all
        from pytest_longctx.report.run import ContractRun, in_order

        runs, known = [], {}
        for contract in self._contracts():
            known[contract.display] = self._checks_of(contract)
            found = [record for record in self.records.values() if record["contract"] == contract.display]
            found = in_order(found, known[contract.display])
            runs.append(ContractRun(contract, found, self.evidence.get(contract.display, {})))
        parts = [Path(value["part"]) for value in self.parts.values()]
        return write_all(runs, self.paths(), os.environ, known, parts, complete=complete)

    def _checks_of(self, contract: Contract) -> list[str]:
        """Ids of all checks of a contract, as far as its collection came."""
        from pytest_longctx.checks import checks_of

        if contract.display in self.collected.checks:
            return list(self.collected.checks[contract.display])
        broken = any(contract is found for _, found, _ in self.lost)
        return [] if broken else [check.id for check in checks_of(contract)]

    def _contracts(self) -> list[Contract]:
        """The contracts of this run: the registered ones, and those named on the command line."""
        from pytest_longctx.contract import load_contract

        known = {contract.display: contract for contract in self._registered()}
        lost = {contract.display: contract for _, contract, _ in self.lost}
        for path in [*self.collected.checks, *(record["contract"] for record in self.records.values())]:
            if path not in known:
                known[path] = lost.get(path) or load_contract(path)
        return list(known.values())

    def _registered(self) -> list[Contract]:
        from pytest_longctx.plugin import CONTRACTS

        registered = self.config.stash.get(CONTRACTS, None)
        return list(registered.by_path.values()) if registered else []

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Which files were written, what moved from the baseline, and GitHub's commands."""
        if self.written is None:
            return
        if self.written.lines:
            terminalreporter.section("longctx reports")
        for outcome, text in self.written.lines:
            terminalreporter.write_line(text, **({_COLOURS[outcome]: True} if outcome in _COLOURS else {}))
        for command in self.written.commands:
            terminalreporter.write_line(command)


_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
_COLOURS = {"failed": "red", "warned": "yellow"}


def _waive(item: pytest.Item) -> None:
    from pytest_longctx.nodes import CheckFailedError, CheckItem
    from pytest_longctx.waivers import in_force, reason_text, utc_today, waiver_of

    waiver = waiver_of(item.check.id, item.file.contract.waivers) if isinstance(item, CheckItem) else None
    if waiver and in_force(waiver, utc_today()):
        item.add_marker(pytest.mark.xfail(reason=reason_text(waiver), strict=True, raises=CheckFailedError))


def _complete(item: pytest.Item, report: pytest.TestReport) -> None:
    from pytest_longctx.nodes import CheckItem
    from pytest_longctx.report.record import placed, unjudged
    from pytest_longctx.waivers import apply, utc_today

    if not isinstance(item, CheckItem) or (report.when == "setup" and report.passed):
        return
    contract = item.file.contract
    record: Any = next((value for name, value in item.user_properties if name == RECORD), None)
    if record is None:
        outcome = "skipped" if report.skipped else "error"
        record = unjudged(item.check, outcome, _cause(item) or _reason(report))
        item.user_properties.append((RECORD, record))
        report.user_properties.append((RECORD, record))
    record.update(apply(placed(record, item.check, contract), contract.waivers, utc_today()))
    _tell_waiver(record, report)


def _tell_waiver(record: dict[str, Any], report: pytest.TestReport) -> None:
    """What a waiver has to do with a failure stands in the failure's text."""
    status = record["waiver"]["status"] if record["waiver"] and report.failed else ""
    if status == "unneeded":
        report.longrepr = f"{record['headline']}; {record['advice']}"
    elif status == "expired":
        report.longrepr = f"{report.longreprtext}\n  {record['context'][-1]}"


def _cause(item: CheckItem) -> str:
    """Why the evidence could not be made: the same words for all checks that this leaves unjudged."""
    failures = item.file.evidence.failures
    return next((str(failures[link]) for link in (item.check.needs, "some_samples") if link in failures), "")


def _reason(report: pytest.TestReport) -> str:
    """The message of a skip or of an exception; a traceback may show row text, so it stays out."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message) if crash else report.longreprtext


def _attach(item: pytest.Item, nextitem: pytest.Item | None, ledger: Path | None) -> None:
    from pytest_longctx.nodes import CheckItem, ContractFile
    from pytest_longctx.report.evidence_summary import summarize

    if not isinstance(item, CheckItem) or (nextitem and nextitem.getparent(ContractFile) is item.file):
        return
    part = None
    if ledger is not None:
        from pytest_longctx.report.ledger_file import write_part

        part = write_part(item.file.evidence, ledger)
    value = {
        "contract": item.file.contract.display,
        "summary": summarize(item.file.evidence),
        "part": str(part) if part else None,
        "audited": "audit" in vars(item.file.evidence),
    }
    item.user_properties.append((EVIDENCE, value))
