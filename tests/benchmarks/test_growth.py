"""Ten times the rows take ten times the time, and memory grows by the ledger's columns alone.

LONGCTX_BENCHMARK_GROWTH sets the largest number of rows; docs/performance.md reports 1,000,000. Rows are of
shape tokenized, 40 tokens each, so that what grows is the number of rows.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.load.run import write_rows

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

MOST = int(os.environ.get("LONGCTX_BENCHMARK_GROWTH", "20000"))
MEAN = 40
CONTRACT = """contract: 1
tokenizer: {{path: {examples}/tokenizer, chat_template: {examples}/chatml.jinja}}
dataset: {{path: rows.parquet, shape: tokenized}}
"""
# Prints seconds, seconds of the processor, and KiB of its own memory, of one pass over the rows.
SCRIPT = """
import time
from pathlib import Path
from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence
def own():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0])
evidence = Evidence(load_contract("c.yaml"))
evidence.tokenizer, evidence.dataset, evidence.sampler
before, start, cpu = own(), time.perf_counter(), time.process_time()
evidence.measured
print(time.perf_counter() - start, time.process_time() - cpu, own() - before)
"""


@pytest.fixture
def measured(tmp_path, examples):
    """A function: seconds, processor seconds and bytes of memory that a pass over so many rows takes."""

    def run(rows):
        folder = tmp_path / str(rows)
        folder.mkdir()
        write_rows(folder / "rows.parquet", rows, MEAN)
        (folder / "c.yaml").write_text(CONTRACT.format(examples=examples))
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=folder, capture_output=True, text=True, check=True
        )
        seconds, processor, kib = map(float, done.stdout.split())
        return seconds, processor, kib * 1024

    return run


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc, which tells own memory")  # noqa: PTH110
def test_ten_times_the_rows(benchmark, measured):
    benchmark.group = "growth"
    small = measured(MOST // 10)
    large = benchmark.pedantic(measured, (MOST,), rounds=1)
    scale = "; ".join(
        f"{rows:,} rows: {seconds:.1f} s, processor {processor:.1f} s, {memory / 2**20:.0f} MiB"
        for rows, (seconds, processor, memory) in ((MOST // 10, small), (MOST, large))
    )
    benchmark.extra_info.update(
        what="ten times the rows of shape tokenized: processor time over ten times that of a tenth",
        ratio=large[1] / (10 * small[1]),
        reach="≤ 1.1",
        scale=scale,
    )


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc, which tells own memory")  # noqa: PTH110
def test_memory_a_sample(benchmark, measured):
    benchmark.group = "growth"
    small = measured(MOST // 10)
    large = benchmark.pedantic(measured, (MOST,), rounds=1)
    benchmark.extra_info.update(
        what="own memory that each further sample takes, its id included",
        ratio=(large[2] - small[2]) / (MOST - MOST // 10),
        reach="≤ 40",
        unit="B",
        scale=f"{MOST:,} rows of shape tokenized",
    )
