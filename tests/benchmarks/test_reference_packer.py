"""The reference packers beside numpy's own stable sort of the same lengths, in one run.

LONGCTX_BENCHMARK_SAMPLES sets the number of lengths. Planning costs the same whatever it is, so that few
samples pay for it most.
"""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest

from pytest_longctx.packing.reference import best_fit_decreasing, first_fit_decreasing

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

CAPACITY = 32_768
SAMPLES = int(os.environ.get("LONGCTX_BENCHMARK_SAMPLES", "10000000"))


def lognormal(random):
    return np.clip(random.lognormal(np.log(700), 1.1, SAMPLES), 1, CAPACITY)


def uniform(random):
    return random.integers(1, CAPACITY + 1, SAMPLES)


@pytest.fixture(scope="module", params=[lognormal, uniform], ids=lambda draw: draw.__name__)
def lengths(request):
    return request.param(np.random.default_rng(0)).astype(np.int32)


def test_first_fit_decreasing_beside_a_sort(ratio, request, lengths):
    draw = request.node.callspec.id
    ratio(
        lambda: first_fit_decreasing(lengths, CAPACITY),
        lambda: np.argsort(lengths, kind="stable"),
        what=f"First-fit decreasing beside `numpy.argsort(kind='stable')`, {draw} lengths",
        reach="≤ 0.4",
        scale=f"{SAMPLES:,} lengths, rows of {CAPACITY:,} tokens",
        rounds=3,
    )


@pytest.mark.parametrize("pack", [first_fit_decreasing, best_fit_decreasing])
def test_memory_of_a_packer(benchmark, request, pack, lengths):
    some = lengths[:1_000_000]

    def peak():
        tracemalloc.start()
        pack(some, CAPACITY).rows()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    most = benchmark.pedantic(peak)
    benchmark.extra_info.update(
        what=f"Bytes a sample that `{pack.__name__}` takes at most, its rows included",
        ratio=most / some.size,
        reach="≤ 40",
        scale=f"{some.size:,} {request.node.callspec.id.partition('-')[0]} lengths",
    )
    assert most <= 40 * some.size + (1 << 20)
