"""What a run costs before it reads data, and what a small contract costs in all: whole processes.

LONGCTX_CORE_ENVIRONMENT is the folder of an environment with this package and without PyTorch.
"""

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
CONTRACT, EXAMPLES = str(REPOSITORY / "contracts" / "sft.yaml"), REPOSITORY / "examples"
CHATS = 1_000
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


def test_longctx_check(benchmark, folder):
    whole_processes(
        benchmark,
        [core_python(), "-c", LONGCTX, "check", CONTRACT],
        folder,
        what="`longctx check contracts/sft.yaml`",
        reach="≤ 0.5 s",
    )


def test_a_contract_of_a_thousand_chats(benchmark, folder):
    """The chats and the contract of the examples, a thousand of them from all files."""
    files = sorted(EXAMPLES.glob("data/*.jsonl"))
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines(keepends=True)]
    chosen = [lines[number * len(lines) // CHATS] for number in range(CHATS)]
    (folder / "chats.jsonl").write_text("".join(chosen), encoding="utf-8")
    text = Path(CONTRACT).read_text(encoding="utf-8")
    text = text.replace("../examples/data/*.jsonl", "chats.jsonl").replace("../examples", str(EXAMPLES))
    (folder / "sft.yaml").write_text(text, encoding="utf-8")
    python = core_python()
    torch = "without PyTorch" if python != sys.executable else "beside all that is installed here"
    whole_processes(
        benchmark,
        [python, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--longctx-cache=off", "sft.yaml"],
        folder,
        what=f"`pytest sft.yaml`, packing included, no cache, {torch}",
        reach="≤ 5 s",
        scale=f"{CHATS:,} chats",
    )


def core_python():
    """The interpreter of an environment without PyTorch where one is named, else this one."""
    named = os.environ.get("LONGCTX_CORE_ENVIRONMENT")
    return str(Path(named, "bin", "python")) if named else sys.executable


def whole_processes(benchmark, command, folder, *, what, reach, scale=""):
    took, before = [], processor_seconds()
    benchmark.pedantic(lambda: took.append(seconds(command, folder)), rounds=ROUNDS // 3, warmup_rounds=1)
    on_average = (processor_seconds() - before) / len(took)
    told = ", ".join(filter(None, [scale, f"processor time {on_average:.2g} s"]))
    benchmark.extra_info.update(what=what, ratio=min(took), unit=" s", reach=reach, scale=told)


def processor_seconds():
    """Processor time of the processes that were started and have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system
