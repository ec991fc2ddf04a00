"""All checks of a run's contracts, chosen or not, and what failed without a record of any check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable

    from pytest_longctx.contract import Contract
    from pytest_longctx.nodes import ContractFile

OUTPUT = "longctx_checks"


class Collected:
    """Hooks of one run, in a worker as in the controller.

    checks: contract path → id of each check → value of its slice, None for all rows; failures: node id → what
    pytest says of it; died: whether a worker of xdist did not end by itself.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.checks: dict[str, dict[str, str | None]] = {}
        self.failures: dict[str, str] = {}
        self.died = False

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """The checks of a contract, before any is deselected; `--lf` may leave out all of them."""
        report = yield
        if "longctx" in collector.keywords:
            from pytest_longctx.nodes import ContractFile, Section

            if isinstance(collector, ContractFile):
                self._know(collector, report)
            elif isinstance(collector, Section) and isinstance(collector.parent, Section):
                # Its id is that of the check over all rows, which `--lf` would take for passed.
                report.nodeid += "::"
        return report

    def _know(self, file: ContractFile, report: pytest.CollectReport) -> None:
        from pytest_longctx.checks import checks_of

        checks = file.checks
        if report.passed and not checks:
            checks = checks_of(file.contract, file.evidence.extensions)
        self.checks[file.contract.display] = {check.id: check.slice for check in checks}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """A worker of xdist tells the controller, which collects nothing itself."""
        output: dict[str, Any] | None = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[OUTPUT] = self.checks

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """What a worker of xdist told, if it ended by itself."""
        self.checks |= getattr(node, "workeroutput", {}).get(OUTPUT, {})
        self.died |= error is not None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A contract that could not be collected."""
        self._note(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A check whose worker died has a report of xdist's, without a record."""
        self._note(report)

    def _note(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        if report.failed and file.endswith((".yaml", ".yml")):
            text = report.longreprtext.strip() or "failed"
            # The problems of a contract stand there in full; else the last line says what was raised.
            if not isinstance(report, pytest.CollectReport) or hasattr(report.longrepr, "reprtraceback"):
                text = text.splitlines()[-1].strip()
            self.failures.setdefault(report.nodeid, text)

    def unrecorded(
        self, contracts: Iterable[Contract], recorded: Iterable[str]
    ) -> Generator[tuple[str, Contract, dict[str, Any]]]:
        """Node id, contract and record of an error for every failure that left no record of its own.

        Args:
            contracts: those that the run has read.
            recorded: node ids of the checks that have a record.
        """
        from pytest_longctx.report.record import lost
        from pytest_longctx.session import is_contract

        known, recorded = {str(contract.path): contract for contract in contracts}, set(recorded)
        if self.died:
            self._miss(known.values(), {nodeid.partition("::")[0] for nodeid in (*self.failures, *recorded)})
        for nodeid, text in self.failures.items():
            file, _, check = nodeid.partition("::")
            path = os.path.abspath(self.config.rootpath / file)  # noqa: PTH100 - no resolve()
            if nodeid in recorded or (path not in known and not is_contract(Path(path))):
                continue
            contract = known[path] = known.get(path) or _read(path)
            value = self.checks.get(contract.display, {}).get(check)
            yield nodeid, contract, lost(contract, check, value, text)

    def _miss(self, contracts: Iterable[Contract], heard_of: Collection[str]) -> None:
        """A contract of which no worker lived to say anything; they die while they collect, too."""
        for contract in contracts:
            nodeid = Path(os.path.relpath(contract.path, self.config.rootpath)).as_posix()
            if nodeid not in heard_of and contract.display not in self.checks:
                self.failures[nodeid] = "the worker that should have checked it died"


def _read(path: str) -> Contract:
    """The contract, or as much of a broken one as a report needs."""
    from pytest_longctx.contract import load_contract
    from pytest_longctx.contract.load import unreadable
    from pytest_longctx.errors import ContractError

    try:
        return load_contract(path)
    except ContractError:
        return unreadable(path)
