"""One pytest run: which contracts it reads, and what it says of them at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from glob import iglob
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pytest

from pytest_longctx.configured import settings_of
from pytest_longctx.errors import ContractError, LongctxError, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from pytest_longctx.contract import Contract
    from pytest_longctx.extensions import Extensions


@dataclass
class Contracts:
    """The registered contracts by absolute path; symlinks are kept as they are named."""

    by_path: dict[str, Contract] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)

    def header(self) -> list[str]:
        """One line a contract for pytest's header."""
        return [f"contract: {contract.display}" for contract in self.by_path.values()]


def _absolute(config: pytest.Config, path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.path.join(config.invocation_params.dir, path))  # noqa: PTH100, PTH118 - no resolve()


def _registered(config: pytest.Config) -> list[str]:
    """Absolute paths of the option's and the ini key's contracts, each once."""
    given = [_absolute(config, path) for path in config.known_args_namespace.longctx_contract]
    configured = [os.path.abspath(path) for path in config.getini("longctx_contracts")]  # noqa: PTH100
    return list(dict.fromkeys([*given, *configured]))


def extend_arguments(config: pytest.Config, args: list[str]) -> None:
    """Append contracts to the command line.

    A contract of the option stands beside whatever else is named. Those of the ini key run beside the
    ordinary tests, but not when other paths are named.
    """
    named = [_absolute(config, arg.partition("::")[0]) for arg in config.known_args_namespace.file_or_dir]
    given = [_absolute(config, path) for path in config.known_args_namespace.longctx_contract]
    wanted, folders = dict.fromkeys(given), named
    if not named and not given:
        folders = _default_paths(config)
        args.extend(folders)
        wanted.update(dict.fromkeys(_registered(config)))
    args.extend(path for path in wanted if path not in named and not _is_walked(config, path, folders))


def _default_paths(config: pytest.Config) -> list[str]:
    """What pytest collects where nothing is named: testpaths, if this is rootdir, else the current folder."""
    here = config.invocation_params.dir
    patterns = config.getini("testpaths") if here == config.rootpath else ()
    # By the same function as pytest's own.
    found = [path for pattern in patterns for path in sorted(iglob(pattern, recursive=True))]  # noqa: PTH207
    return found or [str(here)]


def _is_walked(config: pytest.Config, path: str, folders: Iterable[str]) -> bool:
    """Whether the walk of a folder is left to find the contract.

    pytest before 9.0 drops all other tests of a folder that is named beside a file below it.
    """
    if pytest.version_tuple >= (9, 0):
        return False
    above = [f"{folder}{os.sep}" for folder in (_absolute(config, each) for each in folders)]
    below = [path.removeprefix(folder) for folder in above if path.startswith(folder)]
    parts = {part for relative in below for part in PurePath(relative).parent.parts}
    if any(fnmatch(part, pattern) for part in parts for pattern in config.getini("norecursedirs")):
        raise pytest.UsageError(f"{path}: pytest 8 enters no such folder (norecursedirs): move it")
    return bool(below)


def read_contracts(config: pytest.Config) -> Contracts:
    """Read every registered contract.

    Raises:
        pytest.UsageError: with all problems of all contracts, and what must be installed.
    """
    settings_of(config)  # what is wrong with an option is told before anything is collected
    contracts, problems = Contracts(), [*map(str, _repeated(config)), *_unusable_names(config)]
    for path in _registered(config):
        try:
            contracts.by_path[path] = _read(config, path)
        except ContractError as error:
            problems += map(_on_one_line, error.problems)
        except LongctxError as error:  # of what a plugin or conftest.py registers
            problems.append(_on_one_line(error))
    if problems:
        raise pytest.UsageError("\n".join(problems))
    return contracts


def _on_one_line(problem: object) -> str:
    text = str(problem)
    return text if text.isprintable() else repr(text)[1:-1]


def _unusable_names(config: pytest.Config) -> Iterable[str]:
    """pytest cannot collect these names, or shows them so that they steer a terminal or a GitHub log."""
    for path in _registered(config):
        name = os.path.relpath(path, config.invocation_params.dir)
        if not name.isprintable() or "::" in name or "[" in name:
            shown = _on_one_line(name)
            yield f"{shown}: a contract's path holds no control characters, no :: and no [: rename it"


def _repeated(config: pytest.Config) -> Iterable[Problem]:
    given = [_absolute(config, path) for path in config.known_args_namespace.longctx_contract]
    for path in dict.fromkeys(path for path in given if given.count(path) > 1):
        shown = os.path.relpath(path, config.invocation_params.dir)
        yield Problem(shown, 1, 1, "", "the contract is given twice, expected once")


def _read(config: pytest.Config, path: str) -> Contract:
    from pytest_longctx.contract import load_contract
    from pytest_longctx.requirements import missing_extras

    contract = load_contract(path)
    problems = [*missing_extras(contract), *_unknown_checks(config, contract)]
    if problems:
        raise ContractError(problems)
    return contract


def _unknown_checks(config: pytest.Config, contract: Contract) -> Iterable[Problem]:
    """Waivers and baseline metrics that name a check which the contract does not make."""
    if not contract.waivers and not contract.baseline:
        return ()
    from pytest_longctx.checks import checks_of
    from pytest_longctx.waivers import metric_problems, waiver_problems

    names = [check.id for check in checks_of(contract, _extensions(config))]
    return [*waiver_problems(contract, names), *metric_problems(contract, names)]


def collect_contract(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The node of a registered contract, or of a contract that the command line names."""
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.nodes import BrokenContract, ContractFile
    from pytest_longctx.plugin import CONTRACTS

    config = parent.config
    contracts = config.stash.get(CONTRACTS, None)
    contract = contracts.by_path.get(os.path.abspath(path)) if contracts else None  # noqa: PTH100
    if contracts is not None and contract is not None:
        contracts.collected.add(str(contract.path))
    elif not _is_named(config, path) or not is_contract(path):
        return None
    try:
        contract = contract or _read(config, str(path))
        evidence = Evidence(contract, _extensions(config), settings_of(config))
    except ContractError as error:
        return BrokenContract.of(parent, path, "\n".join(map(_on_one_line, error.problems)))
    except pytest.UsageError as error:  # of an option, or of what conftest.py registers
        return BrokenContract.of(parent, path, str(error))
    return ContractFile.of(parent, path, contract, evidence)


def refuse_uncollected(config: pytest.Config) -> None:
    """A contract of the option that pytest was told to ignore would not be missed.

    A worker of xdist cannot refuse a run; it tells the controller.

    Raises:
        pytest.UsageError: with the contracts that make no item.
    """
    from pytest_longctx.plugin import CONTRACTS

    contracts = config.stash.get(CONTRACTS, None)
    given = [_absolute(config, path) for path in config.known_args_namespace.longctx_contract]
    missing = [path for path in given if contracts is not None and path not in contracts.collected]
    if not missing:
        return
    shown = ", ".join(os.path.relpath(path, config.invocation_params.dir) for path in missing)
    message = f"{shown}: was not collected; is it ignored (--ignore, collect_ignore)?"
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is None:
        raise pytest.UsageError(message)
    output["longctx_uncollected"] = message


def fail_uncollected(session: pytest.Session, message: str) -> None:
    """End a run under xdist as a usage error, as without it."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.exitstatus != pytest.ExitCode.USAGE_ERROR:
        reporter.write_line(f"ERROR: {message}", red=True)
    session.exitstatus = pytest.ExitCode.USAGE_ERROR


def _is_named(config: pytest.Config, path: Path) -> bool:
    named = (_absolute(config, str(arg).partition("::")[0]) for arg in config.args)
    return os.path.abspath(path) in named  # noqa: PTH100


def is_contract(path: Path) -> bool:
    """Whether the file's first key is `contract`, by its first words only."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as lines:
        words = (line.strip() for line in lines.read(1 << 16).splitlines())
        first = next((line for line in words if line and not line.startswith(("#", "---", "%"))), "")
    return first.startswith("contract:")


def _extensions(config: pytest.Config) -> Extensions:
    from pytest_longctx.extensions import Extensions, merge
    from pytest_longctx.packing.names import COLLATORS, PACKERS, TRAINERS

    shipped: dict[str, Any] = {"packer": PACKERS, "collator": COLLATORS, "trainer": TRAINERS}
    kinds = ("packer", "collator", "trainer", "dataset", "check")
    try:
        return Extensions(
            **{f"{kind}s": merge(kind, shipped.get(kind, {}), _registrations(config, kind)) for kind in kinds}
        )
    except LongctxError as error:
        raise pytest.UsageError(str(error)) from None


def _registrations(config: pytest.Config, kind: str) -> list[Mapping[str, Any]]:
    """What each plugin's hook gave.

    Raises:
        LongctxError: one gave no mapping.
    """
    hook = getattr(config.hook, f"pytest_longctx_{kind}s")
    given: list[Mapping[str, Any]] = hook()
    if not all(isinstance(table, Mapping) for table in given):
        # The results do not say whose they are: each plugin is asked again.
        for plugin in (one for one in hook.get_hookimpls() if not one.hookwrapper and not one.wrapper):
            table = plugin.function()
            if table is not None and not isinstance(table, Mapping):
                raise LongctxError(
                    f"{hook.name} of {plugin.plugin_name} gave a {type(table).__name__}, "
                    f"expected a mapping of names to callables"
                )
    return given


def show(config: pytest.Config) -> int:
    """Print one row of the contract's dataset.

    Raises:
        pytest.UsageError: there is no contract, or no such row.
    """
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.report.show import show_row

    contracts = read_contracts(config).by_path.values()
    if len(contracts) != 1:
        raise pytest.UsageError("--longctx-show needs exactly one --longctx-contract")
    evidence = Evidence(next(iter(contracts)), _extensions(config), settings_of(config))
    try:
        for line in show_row(evidence, config.getoption("longctx_show"), colour=_in_colour(config)):
            sys.stdout.write(f"{line}\n")
    except LongctxError as error:
        raise pytest.UsageError(str(error)) from None
    return 0


def _in_colour(config: pytest.Config) -> bool:
    """As pytest has it: by --color, else on a terminal unless NO_COLOR is set."""
    wanted = config.getoption("color", "auto")
    if wanted != "auto":
        return bool(wanted == "yes")
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def write_summary(
    reporter: Any, records: list[tuple[str, dict[str, Any]]], known: Mapping[str, Collection[str]]
) -> None:
    """The summary section of the checks' records, by node id; `known` are all checks of each contract."""
    from pytest_longctx.report.summary import summary_lines

    reporter.section("longctx contract")
    colours = {"failed": "red", "error": "red", "warned": "yellow", "passed": "green"}
    for outcome, line in summary_lines(records, reporter._tw.fullwidth, known):
        reporter.write_line(line, **({colours[outcome]: True} if outcome in colours else {}))
