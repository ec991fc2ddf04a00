"""The pytest hooks: a table of contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_longctx import options, reporting

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_longctx.session import Contracts

CONTRACTS: pytest.StashKey[Contracts] = pytest.StashKey()
UNCOLLECTED: pytest.StashKey[str] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options and ini keys."""
    group = parser.getgroup("longctx", "data contracts for long-context SFT")
    options.add_options(parser, group)
    reporting.add_options(parser, group)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """The hooks by which others add packers, collators, trainers and datasets."""
    from pytest_longctx import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> None:
    """Contracts named by option or ini key become arguments, so that pytest collects them."""
    given = early_config.known_args_namespace.longctx_contract
    configured = early_config.getini("longctx_contracts")
    if given or configured:
        from pytest_longctx.session import extend_arguments

        extend_arguments(early_config, args)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; read the contracts, all problems at once."""
    options.add_markers(config)
    report = reporting.Reporting(config)
    config.pluginmanager.register(report, "longctx-reporting")
    config.pluginmanager.register(report.collected, "longctx-collected")
    if config.getoption("longctx_contract") or config.getini("longctx_contracts"):
        from pytest_longctx.session import read_contracts

        config.stash[CONTRACTS] = read_contracts(config)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """`--longctx-show` runs no test."""
    if config.getoption("longctx_show") is None:
        return None
    from pytest_longctx.session import show

    return show(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A registered contract, or a contract named on the command line."""
    if file_path.suffix not in (".yaml", ".yml"):
        return None
    from pytest_longctx.session import collect_contract

    return collect_contract(file_path, parent)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """A contract that was asked for and not collected is an error, before anything is deselected."""
    if config.stash.get(CONTRACTS, None) is not None:
        from pytest_longctx.session import refuse_uncollected

        refuse_uncollected(config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker of xdist could not refuse."""
    if message := getattr(node, "workeroutput", {}).get("longctx_uncollected"):
        node.config.stash[UNCOLLECTED] = message


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A contract that no worker collected fails the run."""
    if message := session.config.stash.get(UNCOLLECTED, ""):
        from pytest_longctx.session import fail_uncollected

        fail_uncollected(session, message)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """One line a contract."""
    contracts = config.stash.get(CONTRACTS, None)
    return contracts.header() if contracts else []


def pytest_report_teststatus(report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """A check that passed with a warning shows as `w`."""
    if getattr(report, "when", "") == "call" and report.passed:
        for name, value in report.user_properties:
            if name == reporting.RECORD and value["outcome"] == "warned":
                return "warned", "w", ("WARNED", {"yellow": True})
    return None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Check, measured, limit, headroom, verdict."""
    found: Any = config.pluginmanager.get_plugin("longctx-reporting")
    if found is None:
        return
    # A contract that could not be collected stands in full among pytest's own errors.
    lost = [(node, record) for node, _, record in found.lost if "::" in node]
    records = [*reporting.records_of(terminalreporter), *lost]
    if terminalreporter.verbosity > -2 and records:
        from pytest_longctx.session import write_summary

        write_summary(terminalreporter, records, found.collected.checks)
