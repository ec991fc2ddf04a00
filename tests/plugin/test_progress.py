"""Where a run tells of long work; a watch that tells of every row stands in for a long one."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from pytest_longctx import progress
from pytest_longctx.configured import _terminal, _watch

ARGUMENTS = ("--longctx-contract=contracts/sft.yaml", "-k", "rows")


@pytest.fixture
def run(project, pytester, monkeypatch):
    """Runs a small contract as if every row took long."""
    project()
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setattr(progress, "PERIOD", 0)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)

    def run(*arguments, ci=""):
        monkeypatch.setenv("CI", ci)
        return pytester.runpytest_inprocess(*ARGUMENTS, *arguments)

    return run


def test_a_file_gets_no_progress(run):
    run().stdout.no_fnmatch_line("*longctx: *")


def test_ci_gets_lines_also_while_output_is_captured(run):
    result = run(ci="true")
    result.stdout.fnmatch_lines(["contracts/sft.yaml ", "longctx: 10 rows in 0 s", ".*100%*"])
    assert result.ret == 0


def test_a_quiet_run_gets_none(run):
    run("-q", "-q", ci="true").stdout.no_fnmatch_line("*longctx: *")


def test_workers_of_xdist_give_none():
    reporter = SimpleNamespace(verbosity=0, isatty=True, _tw=SimpleNamespace(fullwidth=80))
    plugins = SimpleNamespace(get_plugin=lambda name: reporter)
    worker, controller = (
        SimpleNamespace(pluginmanager=plugins, **more) for more in ({"workerinput": {}}, {})
    )
    assert _watch(worker, _terminal(worker)) is progress.silent
    assert isinstance(_watch(controller, _terminal(controller)), progress.Bars | progress.Lines)


def test_a_terminal_gets_a_bar_that_goes(run, pytester):
    pytester.makeconftest("import pytest_longctx.progress as progress; progress.DELAY = 0")
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "GITHUB_ACTIONS")}
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *ARGUMENTS],
        cwd=pytester.path,
        env={**kept, "TERM": "xterm"},
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    output = b"".join(read(main))
    assert process.wait() == 0
    # The bar stands on a line of its own, and blanks stand over it before the check's dot comes.
    assert re.search(rb"sft.yaml \r\n\rrows: \d+ rows [^\n]*\r +\r[^\n]*\.", output), output


def read(descriptor):
    """All that comes, until the other side is closed."""
    end = time.monotonic() + 120
    while time.monotonic() < end and select.select([descriptor], [], [], 120)[0]:
        try:
            data = os.read(descriptor, 4096)
        except OSError:  # Linux's way to say that it is closed
            break
        if not data:
            break
        yield data
    os.close(descriptor)
