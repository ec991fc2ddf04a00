"""What the options of a run say to the engine."""

from __future__ import annotations

import math
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_longctx.progress import in_ci, silent, unheard, watching
from pytest_longctx.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_longctx.progress import Watch

MOST_JOBS = 256


def settings_of(config: pytest.Config) -> Settings:
    """What the options say to the engine.

    Raises:
        pytest.UsageError: an option's value cannot be used.
    """
    record, terminal = config.getoption("longctx_gpu_record"), _terminal(config)
    return Settings(
        required=frozenset(config.getoption("longctx_require")),
        gpu=config.getoption("longctx_gpu"),
        gpu_record=config.invocation_params.dir / record if record else None,
        under_xdist=hasattr(config, "workerinput"),
        watch=_watch(config, terminal),
        tell=terminal.tell if terminal else unheard,
        cache=_cache(config, terminal.tell if terminal else unheard),
        cache_bytes=_gibibytes(config),
        jobs=_jobs(config),
        engine=config.getoption("longctx_engine"),
        exchange=config.getoption("longctx_exchange"),
        workers=int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
    )


def _cache(config: pytest.Config, tell: Callable[[str], None]) -> Path | None:
    """By default below pytest's own cache folder; none where that is switched off.

    None by default in CI as well: a checkout may bring a cache along, with entries of a stranger's making.
    """
    given = config.getoption("longctx_cache")
    if given == "off":
        return None
    if given is not None:
        return Path(config.invocation_params.dir, given)
    own: pytest.Cache | None = getattr(config, "cache", None)
    try:
        return None if own is None or in_ci(os.environ) else own.mkdir("longctx")
    except OSError as error:
        tell(f"no cache: {error}")
        return None


def _gibibytes(config: pytest.Config) -> int:
    given = config.getini("longctx_cache_gib")
    try:
        size = float(given)
    except ValueError:
        size = -1.0
    if not 0 <= size < math.inf:
        raise pytest.UsageError(f"longctx_cache_gib: found {given!r}, expected a number of GiB, 0 or more")
    return int(size * 2**30)


def _jobs(config: pytest.Config) -> int | None:
    given = config.getoption("longctx_jobs")
    if given == "auto":
        return None
    if not (given.isdecimal() and 1 <= int(given) <= MOST_JOBS):
        raise pytest.UsageError(
            f"--longctx-jobs: found {given!r}, expected auto or a number from 1 to {MOST_JOBS}"
        )
    return int(given)


class _Terminal:
    """The terminal, also while a test's output is captured; starts on a line of its own."""

    def __init__(self, config: pytest.Config, reporter: Any) -> None:
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")
        self._reporter = reporter

    def write(self, text: str) -> None:
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            self._reporter.ensure_newline()
            self._reporter.write(text, flush=True)

    def tell(self, message: str) -> None:
        """One message on a line of its own."""
        self.write(f"longctx: {message}\n")

    def flush(self) -> None:
        """What is written is shown at once."""


def _terminal(config: pytest.Config) -> _Terminal | None:
    """Not in a worker, and not in a run that is to be quiet."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput") or reporter.verbosity < -1:
        return None
    return _Terminal(config, reporter)


def _watch(config: pytest.Config, terminal: _Terminal | None) -> Watch:
    if terminal is None:
        return silent
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    return watching(terminal, os.environ, terminal=reporter.isatty, columns=reporter._tw.fullwidth)
