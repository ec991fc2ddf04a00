"""What a run costs before it reads data, and what a small contract costs in all: whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

REPOSITORY = Path(__file__).parents[2]
CONTRACT = str(REPOSITORY / "contracts" / "sft.yaml")
ROUNDS = 15
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
LONGCTX = "import sys; from pytest_longctx.cli import main; sys.exit(main())"
WITHOUT = ["-p", "no:longctx"]


def seconds(command, folder):
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return time.perf_counter() - begin


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("arguments", [["--version"], ["-q", "test_one.py"]], ids=["version", "one_test"])
def test_plugin_beside_plain_pytest(benchmark, folder, arguments):
    """Runs in turns; the median of their differences, so that a slow moment of the machine counts once."""
    plain = []
    own = []

    def with_plugin():
        own.append(seconds([*PYTEST, *arguments], folder))

    def without():
        plain.append(seconds([*PYTEST, *WITHOUT, *arguments], folder))

    benchmark.pedantic(with_plugin, setup=without, rounds=ROUNDS, warmup_rounds=1)
    added = median(ours - theirs for ours, theirs in zip(own[1:], plain[1:], strict=True)) if own[1:] else 0.0
    benchmark.extra_info.update(
        what=f"`pytest {' '.join(arguments)}`, what the plugin adds",
        ratio=added * 1000,
        unit=" ms",
        reach="≤ 10 ms",
        scale=f"plain pytest {median(plain) * 1000:.0f} ms",
    )


@pytest.mark.parametrize(
    ("what", "command", "reach"),
    [
        ("`longctx check contracts/sft.yaml`", [sys.executable, "-c", LONGCTX, "check"], 0.5),
        ("`pytest contracts/sft.yaml`, no cache", [*PYTEST, "-q", "--longctx-cache=off"], 5),
    ],
    ids=["check", "contract"],
)
def test_whole_processes(benchmark, folder, what, command, reach):
    took, before = [], processor_seconds()
    benchmark.pedantic(lambda: took.append(seconds([*command, CONTRACT], folder)), rounds=3, warmup_rounds=1)
    on_average = (processor_seconds() - before) / len(took)
    scale = f"processor time {on_average:.2g} s"
    benchmark.extra_info.update(what=what, ratio=min(took), unit=" s", reach=f"≤ {reach} s", scale=scale)


def processor_seconds():
    """Processor time of the processes that were started and have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system
