"""The matrix: releases of pytest, ways to distribute, and other plugins beside this one.

    nox                       everything
    nox -s 'plugins(pytest="9.0")'
    nox -s lowest newest      oldest allowed and newest dependencies

Each session runs the contract of the examples and the tests of the plugin in an environment without torch.
"""

from __future__ import annotations

import nox

nox.options.reuse_venv = "yes"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["matrix", "plugins", "lowest", "newest"]

PYTEST = ["8.3", "9.0", "9.1", "9.2"]
CONTRACT = "--longctx-contract=contracts/sft.yaml"
MODES: dict[str, list[str]] = {
    "plain": [],
    "no xdist": ["-p", "no:xdist"],
    "n0": ["-n0"],
    "n2 load": ["-n2", "--dist", "load"],
    "n2 loadfile": ["-n2", "--dist", "loadfile"],
    "no cacheprovider": ["-p", "no:cacheprovider"],
    "no terminal": ["-p", "no:terminal", "-o", "addopts="],
    "warnings are errors": ["-W", "error"],
    "strict markers": ["--strict-markers", "--strict-config"],
}
# Plugins that change how items are run or reported. Those of a pair of words fight each other, not this one.
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
BROKEN = "--longctx-contract=contracts/broken/window_too_small.yaml"


def _install(session: nox.Session, *more: str, constraints: str = "constraints.txt") -> None:
    session.install("-c", constraints, ".", "pytest-xdist", *more)


def _both(session: nox.Session, *options: str, **env: str) -> None:
    """A contract that holds ends with 0, one that does not with 1; neither with an internal error."""
    for contract, codes in ((CONTRACT, [0]), (BROKEN, [1])):
        output = session.run(
            "pytest", contract, *options, success_codes=codes, silent=True, env=env, external=False
        )
        if "INTERNALERROR" in str(output):
            session.error(f"an internal error with {' '.join(options)}")


@nox.session
@nox.parametrize("pytest", PYTEST)
def matrix(session: nox.Session, pytest: str) -> None:
    """One release of pytest in every mode."""
    _install(session)
    session.install(f"pytest~={pytest}.0")
    for name, options in MODES.items():
        session.log(name)
        _both(session, *options)
    session.log("autoload off")
    _both(session, "-p", "pytest_longctx.plugin", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


@nox.session
@nox.parametrize("pytest", PYTEST)
def plugins(session: nox.Session, pytest: str) -> None:
    """One release of pytest with each other plugin, alone and all at once."""
    _install(session)
    session.install(f"pytest~={pytest}.0", *PLUGINS)
    every = []
    for plugin, given in PLUGINS.items():
        options = [option.format(tmp=session.create_tmp()) for option in given]
        others = [f"no:{name}" for other in PLUGINS if other != plugin for name in _names(other)]
        session.log(plugin)
        _both(session, *(part for name in others for part in ("-p", name)), *options)
        every += options
    session.log("all of them")
    _both(session, *every)
    _both(session, *every, "-n2")


def _names(plugin: str) -> list[str]:
    """What `-p no:` calls a plugin."""
    plain = plugin.removeprefix("pytest-")
    return {"cov": ["pytest_cov"], "json-report": ["pytest_jsonreport"]}.get(plain, [plain])


def _tests(session: nox.Session) -> None:
    session.install("hypothesis")
    session.run("pytest", "tests/plugin", "tests/contract", "tests/dataset", "-q")


@nox.session(python="3.10")
def lowest(session: nox.Session) -> None:
    """The oldest allowed release of every dependency."""
    _install(session, "hypothesis", constraints="requirements-lowest.txt")
    _both(session)
    _tests(session)


@nox.session
def newest(session: nox.Session) -> None:
    """The newest release of every dependency."""
    session.install("--upgrade", "--upgrade-strategy", "eager", ".", "pytest-xdist", "hypothesis")
    _both(session)
    _tests(session)
