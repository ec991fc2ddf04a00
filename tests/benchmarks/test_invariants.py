"""All invariants over sound packed rows beside one numpy.cumsum over the same tokens, in one run.

LONGCTX_BENCHMARK_TOKENS sets the number of tokens.
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

TOKENS = int(os.environ.get("LONGCTX_BENCHMARK_TOKENS", str(1 << 23)))


@pytest.fixture(scope="module", params=[131_072, 4_096], ids=["long_rows", "short_rows"])
def packed(request):
    """Rows full of samples of 50 to 1,500 tokens, each row with its flat batch; the samples; the width."""
    random, window = np.random.default_rng(0), request.param
    rows, samples = [], []
    for _ in range(max(1, TOKENS // window)):
        parts = [_sample(random, size) for size in _sizes(random, window)]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in ("input_ids", "labels")}
        rows.append({**columns, "seq_lengths": [len(part["input_ids"]) for part in parts]})
        samples += parts
    deliveries = [
        Delivery([PackedRow(row["input_ids"], row["labels"], np.array(row["seq_lengths"]))], flat([row]))
        for row in rows
    ]
    return deliveries, Case(samples, window), window


def _sizes(random, window):
    sizes = []
    while (left := window - sum(sizes)) > 0:
        sizes.append(min(left, int(random.integers(50, 1_500))))
    return sizes


def _sample(random, size):
    ids = random.integers(1, 50_000, size)
    return {"input_ids": ids, "labels": np.where(np.arange(size) < size // 2, -100, ids)}


def test_invariants_beside_a_cumsum(packed, ratio, benchmark):
    deliveries, case, window = packed
    tokens = int(case.samples.offsets[-1])
    sums, seconds = np.empty(window, dtype=np.int64), []

    def all_invariants():
        start = time.process_time()
        found = audit(deliveries, case.samples, case.expected, "benchmark")
        seconds.append(time.process_time() - start)
        assert not +found.counts

    def cumsum():
        for delivery in deliveries:
            np.cumsum(delivery.batch["input_ids"][0], out=sums)

    ratio(
        all_invariants,
        cumsum,
        what=f"All invariants of packing on rows of {window:,} tokens beside `numpy.cumsum` of their ids",
        reach="≤ 12",
        scale=f"{tokens:,} tokens in {len(deliveries):,} batches of one row, with every varlen field",
        clock=time.process_time,
        rounds=9,
    )
    speed = tokens / min(seconds) / 1e6
    benchmark.extra_info["note"] = (
        f"{speed:.0f} M tokens/s a core; the sums go into memory that is there already"
    )
