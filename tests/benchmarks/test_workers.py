"""What pytest-xdist's workers cost and save: whole runs of one contract, and of two of equal size."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.benchmarks.chats import ROWS, SHORT, chats, tokenizer, tokenizer_path
from tests.benchmarks.test_ledger import CONTRACT, write_chats

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")
pytest.importorskip("xdist", reason="pytest-xdist is not installed")


@pytest.fixture
def runs(tmp_path):
    """A function: a run of so many contracts, each of all row checks, by so many workers, without a cache."""
    path = tokenizer_path("deepseek")
    (tmp_path / "chat.jinja").write_text(tokenizer("deepseek").template, encoding="utf-8")
    for number in range(2):
        (tmp_path / f"{number}.yaml").write_text(
            CONTRACT.format(path=path).replace("chats.jsonl", f"chats-{number}.jsonl"), encoding="utf-8"
        )
        write_chats(tmp_path / f"chats-{number}.jsonl", chats(ROWS, SHORT, 3 + number))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--longctx-cache=off"]
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}

    def run(contracts, workers):
        files = [f"{number}.yaml" for number in range(contracts)]
        done = subprocess.run(
            [*command, f"-n{workers}", "--dist=loadfile", *files],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return run


@pytest.mark.parametrize(
    ("contracts", "told", "reach"),
    [(1, "one contract", "≤ 1.2"), (2, "two contracts of equal size", "≤ 0.6")],
)
def test_two_workers_beside_none(benchmark, ratio, runs, contracts, told, reach):
    benchmark.group = "workers"
    ratio(
        lambda: runs(contracts, 2),
        lambda: runs(contracts, 0),
        what=f"`-n2 --dist loadfile` / `-n0`, whole runs of {told}, no cache",
        reach=reach,
        scale=f"{ROWS:,} chats each",
        rounds=3,
    )
