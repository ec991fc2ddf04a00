"""The GPU suite: one measurement of `workload.yaml`, shown as benchmarks and as checks, behind its own gate.

`pytest gpu_suite --longctx-gpu=real --longctx-require=gpu` is what the GPU workflow runs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from pydantic import ValidationError

from pytest_longctx.contract import GpuSection
from pytest_longctx.contract.yaml import YamlError, parse
from pytest_longctx.gpu import GpuError, check_names, default_mode, items, lines, measure, workload_of

if TYPE_CHECKING:
    from pytest_longctx.gpu import Record
    from pytest_longctx.gpu.record import Mode

HERE = Path(__file__).parent
REAL = ("cpu", "real")


@dataclass
class Suite:
    """What is asked for, and which of it has run."""

    terms: GpuSection
    mode: Mode
    required: bool
    record: Record | None = None
    ran: set[str] = field(default_factory=set)

    @property
    def items(self) -> list[str]:
        """The workload's items."""
        return items(workload_of(self.terms, self.mode))

    @property
    def missing(self) -> list[str]:
        """Items and checks that must run, and have not."""
        if self.mode not in REAL and not self.required:
            return []
        return [name for name in (*self.items, *check_names(self.terms)) if name not in self.ran]


SUITE: pytest.StashKey[Suite] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The suite's own options; the first two are the plugin's where it has them."""
    group = parser.getgroup("longctx-gpu", "GPU suite of pytest-longctx")
    with suppress(ValueError):
        group.addoption("--longctx-gpu", choices=["dry_run", "cpu", "real"], help="how the suite runs")
    with suppress(ValueError):
        group.addoption("--longctx-require", action="append", help="gpu: what was not measured on one fails")
    group.addoption("--gpu-workload", type=Path, default=HERE / "workload.yaml", metavar="FILE")
    group.addoption(
        "--gpu-record", type=Path, metavar="FILE", help="write the record here; never over another"
    )
    group.addoption("--gpu-baseline", type=Path, default=HERE / "accepted", metavar="FILE_OR_FOLDER")


def pytest_configure(config: pytest.Config) -> None:
    """Read what is asked for, and refuse what would measure nothing."""
    mode = cast("Mode", config.getoption("longctx_gpu") or default_mode())
    required = "gpu" in (config.getoption("longctx_require") or ())
    suite = Suite(_read(config.getoption("gpu_workload")), mode, required)
    if mode in REAL:
        _refuse(config)
    config.stash[SUITE] = suite


def _read(path: Path) -> GpuSection:
    try:
        return GpuSection.model_validate(parse(path.read_text(encoding="utf-8")).data)
    except (OSError, YamlError, ValidationError) as error:
        raise pytest.UsageError(f"--gpu-workload={path}: {error}") from None


def _refuse(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or getattr(config.option, "numprocesses", None):
        raise pytest.UsageError(
            "the GPU suite does not run under pytest-xdist, where workers share the device"
        )
    if not hasattr(config.option, "benchmark_skip"):
        raise pytest.UsageError("the GPU suite needs pytest-benchmark: pip install 'pytest-longctx[gpu]'")
    if config.getoption("benchmark_skip") or config.getoption("benchmark_disable"):
        raise pytest.UsageError("the GPU suite cannot run with --benchmark-skip or --benchmark-disable")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each item of the workload, and one for each check."""
    suite = metafunc.config.stash[SUITE]
    if "item" in metafunc.fixturenames:
        metafunc.parametrize("item", suite.items)
    if "check" in metafunc.fixturenames:
        metafunc.parametrize("check", check_names(suite.terms))


@pytest.fixture(scope="session")
def suite(pytestconfig: pytest.Config) -> Suite:
    """What is asked for."""
    return pytestconfig.stash[SUITE]


@pytest.fixture(scope="session")
def record(suite: Suite, pytestconfig: pytest.Config) -> Record:
    """The one measurement that all tests look at."""
    given = {name: pytestconfig.getoption(f"gpu_{name}") for name in ("record", "baseline")}
    try:
        suite.record = measure(
            suite.terms, suite.mode, record_path=given["record"], baseline=given["baseline"]
        )
    except GpuError as error:
        pytest.fail(str(error), pytrace=False)
    return suite.record


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The gate: a declared item that was renamed, deselected or skipped is a failure, not a shorter list."""
    if session.exitstatus in (0, 5) and not session.config.option.collectonly:
        missing = session.config.stash[SUITE].missing
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if missing else session.exitstatus


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which device, precision and kernel ran, and what did not."""
    suite = config.stash[SUITE]
    terminalreporter.section("GPU suite")
    for line in lines(suite.record) if suite.record else ["gpu: nothing was measured"]:
        terminalreporter.write_line(line)
    if suite.missing and not config.option.collectonly:
        terminalreporter.write_line(f"declared and not run: {', '.join(suite.missing)}")
