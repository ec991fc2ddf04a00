"""The matrix: releases of pytest, ways to distribute, and other plugins beside this one.

    nox                       everything
    nox -s "plugins(pytest='9.0')"
    nox -s "matrix(pytest='8.3')" -- plain n0     only these two modes
    nox -s lowest newest      oldest allowed and newest dependencies

Every combination runs two small contracts, one that holds and one that does not, in an environment without
torch. It must end with their exit status, without an internal error, and with the same outcome of each check
as in the first run of its session.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import nox

if TYPE_CHECKING:
    from collections.abc import Iterator

nox.options.reuse_venv = "yes"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["matrix", "plugins", "lowest", "newest"]

PYTEST = ["8.3", "9.0", "9.1", "9.2"]
OWN = "pytest_longctx.plugin"
MODES: dict[str, list[str]] = {
    "plain": [],
    "rows from the cache": [],
    "no row cache": ["--longctx-cache=off"],
    "a folder as row cache": ["--longctx-cache={tmp}/rows"],
    "two processes": ["--longctx-cache=off", "--longctx-jobs=2"],
    "no xdist": ["-p", "no:xdist"],
    "n0": ["-n0"],
    "n2 load": ["-n2", "--dist", "load"],
    "n2 loadfile": ["-n2", "--dist", "loadfile"],
    "n2 load, no row cache": ["-n2", "--dist", "load", "--longctx-cache=off"],
    "no cacheprovider": ["-p", "no:cacheprovider"],
    "no terminal": ["-p", "no:terminal", "-o", "addopts="],
    "warnings are errors": ["-W", "error"],
    "strict markers": ["--strict-markers", "--strict-config"],
}
WITHOUT_AUTOLOAD: dict[str, list[str]] = {
    "autoload off": ["-p", OWN],
    "autoload off, n2": ["-p", OWN, "-p", "xdist", "-n2"],
}
# Plugins that change how items are run or reported, and what makes each do something.
PLUGINS: dict[str, list[str]] = {
    "pytest-benchmark": [],
    "pytest-cov": ["--cov=pytest_longctx", "--cov-report="],
    "pytest-html": ["--html={tmp}/out.html"],
    "pytest-json-report": ["--json-report", "--json-report-file={tmp}/out.json"],
    "pytest-randomly": ["-p", "randomly"],
    "pytest-rerunfailures": ["--reruns", "1"],
    "pytest-asyncio": ["-o", "asyncio_default_fixture_loop_scope=function"],
    "pytest-timeout": ["--timeout", "300"],
    "pytest-sugar": [],
}
# What `-p no:` calls a plugin, where it is not the name of its package.
NAMES = {"pytest-cov": "pytest_cov", "pytest-json-report": "pytest_jsonreport"}
ROWS = 20
CONTRACT = """\
contract: 1
tokenizer: {{path: {examples}/tokenizer, chat_template: {examples}/chatml.jinja}}
dataset: {{path: rows.jsonl, id: uid}}
supervision: {{turns: all}}
lengths: {{short_threshold: 512, long_threshold: 2048, limits: {{max_tokens: 100000}}}}
window:
  target_context_len: 1024
  min_kept_supervised_tokens: 16
  max_supervision_loss_ratio: 0.25
  limits: {{max_overflow_ratio: {most_overflow}}}
packing: {{packer: ffd, collator: block_mask, batch_size: 1, limits: {{min_utilization: 0.1}}}}
"""
# What the tests of `_tests` need: none of it brings torch.
FOR_TESTS = [".[hub,zstd]", "pytest-xdist", "hypothesis"]
Outcomes = dict[str, str]


def _install(session: nox.Session) -> None:
    session.install("-c", "constraints.txt", ".", "pytest-xdist")


def _contracts(folder: Path) -> tuple[Path, Path]:
    """One that holds and one that does not: many of the documents do not fit the window."""
    examples = Path("examples").resolve()
    with (examples / "data/documents.jsonl").open(encoding="utf-8") as lines:
        (folder / "rows.jsonl").write_text("".join(islice(lines, ROWS)), encoding="utf-8")
    paths = folder / "holds.yaml", folder / "fails.yaml"
    for path, most_overflow in zip(paths, ("1.0", "0.0"), strict=True):
        text = CONTRACT.format(examples=examples, most_overflow=most_overflow)
        path.write_text(text, encoding="utf-8")
    return paths


def _outcomes(junit: Path) -> Outcomes:
    """What became of each item."""

    def pairs() -> Iterator[tuple[str, str]]:
        for case in ElementTree.parse(junit).iter("testcase"):
            said = {child.tag for child in case} & {"failure", "error", "skipped"}
            yield f"{case.get('classname')}::{case.get('name')}", " ".join(sorted(said)) or "passed"

    return dict(pairs())


class _Runs:
    """Runs of the two contracts in one session, each compared with the first."""

    def __init__(self, session: nox.Session) -> None:
        self.session = session
        self.folder = Path(session.create_tmp()).resolve()
        self.contracts = _contracts(self.folder)
        self.first: dict[Path, Outcomes] = {}

    def __call__(self, name: str, options: list[str], **env: str) -> None:
        """A contract that holds ends with 0, one that does not with 1; neither with an internal error."""
        if self.session.posargs and name not in self.session.posargs:
            return
        self.session.log(name)
        junit = self.folder / "junit.xml"
        given = [option.format(tmp=self.folder) for option in options]
        for contract, status in zip(self.contracts, (0, 1), strict=True):
            command = ["pytest", f"--longctx-contract={contract}", f"--junitxml={junit}", *given]
            junit.unlink(missing_ok=True)
            output = self.session.run(*command, success_codes=[status], silent=True, env=env)
            if "INTERNALERROR" in str(output):
                self.session.error(f"{name}: an internal error")
            self._compare(name, contract, _outcomes(junit))

    def _compare(self, name: str, contract: Path, found: Outcomes) -> None:
        expected = self.first.setdefault(contract, found)
        if found != expected or not found:
            self.session.error(f"{name}: {contract.name} has {found}, at first {expected}")


@nox.session
@nox.parametrize("pytest", PYTEST)
def matrix(session: nox.Session, pytest: str) -> None:
    """One release of pytest in every mode."""
    _install(session)
    session.install(f"pytest~={pytest}.0")
    run = _Runs(session)
    for name, options in MODES.items():
        run(name, options)
    for name, options in WITHOUT_AUTOLOAD.items():
        run(name, options, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


@nox.session
@nox.parametrize("pytest", PYTEST)
def plugins(session: nox.Session, pytest: str) -> None:
    """One release of pytest with each other plugin, alone and all at once."""
    _install(session)
    session.install(f"pytest~={pytest}.0", *PLUGINS)
    run = _Runs(session)
    for plugin, options in PLUGINS.items():
        others = [f"-pno:{_name(other)}" for other in PLUGINS if other != plugin]
        run(plugin, [*others, *options])
    every = [option for options in PLUGINS.values() for option in options]
    run("all of them", every)
    run("all of them, n2", [*every, "-n2"])


def _name(plugin: str) -> str:
    return NAMES.get(plugin, plugin.removeprefix("pytest-"))


def _tests(session: nox.Session) -> None:
    _Runs(session)("plain", [])
    folders = ("tests/plugin", "tests/contract", "tests/dataset", "tests/cache")
    session.run("pytest", *folders, "--ignore=tests/plugin/test_isolation.py", "-q")  # which needs torch


@nox.session(python="3.10")
def lowest(session: nox.Session) -> None:
    """The oldest allowed release of every dependency."""
    session.install("-c", "requirements-lowest.txt", *FOR_TESTS)
    _tests(session)


@nox.session
def newest(session: nox.Session) -> None:
    """The newest release of every dependency."""
    session.install("--upgrade", "--upgrade-strategy", "eager", *FOR_TESTS)
    _tests(session)
