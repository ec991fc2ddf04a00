"""All invariants over long packed rows, beside one numpy.cumsum over the same tokens, in one run.

LONGCTX_BENCHMARK_TOKENS sets the number of tokens; docs/performance.md reports 100,000,000.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from pytest_longctx.packing.audit import Delivery, audit
from pytest_longctx.packing.batch import PackedRow
from pytest_longctx.testing.examples import Case, flat

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

WINDOW = 131_072
TOKENS = int(os.environ.get("LONGCTX_BENCHMARK_TOKENS", str(1 << 21)))
# 20 M tokens/s where cumsum makes 600 M/s; four times that for machines that do other work meanwhile.
MOST = 120


@pytest.fixture(scope="module")
def packed():
    """Rows full of samples of 50 to 1,500 tokens, each row with its flat batch; and the samples."""
    random = np.random.default_rng(0)
    rows, samples = [], []
    for _ in range(max(1, TOKENS // WINDOW)):
        sizes = random.integers(50, 1500, WINDOW // 700)
        sizes = (
            np.append(sizes, WINDOW - sizes.sum())
            if sizes.sum() < WINDOW
            else sizes[np.cumsum(sizes) <= WINDOW]
        )
        parts = [_sample(random, int(size)) for size in sizes]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in ("input_ids", "labels")}
        rows.append({**columns, "seq_lengths": sizes})
        samples += parts
    deliveries = [
        Delivery([PackedRow(row["input_ids"], row["labels"], row["seq_lengths"])], flat([row]))
        for row in rows
    ]
    return deliveries, Case(samples, WINDOW)


def _sample(random, size):
    ids = random.integers(1, 50_000, size)
    return {"input_ids": ids, "labels": np.where(np.arange(size) < size // 2, -100, ids)}


def all_invariants(deliveries, case):
    return audit(deliveries, case.samples, case.expected, "benchmark")


def cumsum(deliveries, case):
    return [np.cumsum(delivery.batch["input_ids"]) for delivery in deliveries]


@pytest.mark.parametrize("work", [cumsum, all_invariants])
def test_invariants_against_a_cumsum(benchmark, work, packed):
    benchmark.group = "invariants"
    benchmark.extra_info["tokens"] = int(packed[1].samples.offsets[-1])
    benchmark.pedantic(work, args=packed, rounds=5, warmup_rounds=1)


def test_invariants_cost_a_bounded_number_of_passes(packed):
    assert not +all_invariants(*packed).counts
    ratio = _fastest(all_invariants, packed) / _fastest(cumsum, packed)
    assert ratio < MOST


def _fastest(work, arguments, rounds=5):
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        work(*arguments)
        seconds.append(time.perf_counter() - start)
    return min(seconds)
