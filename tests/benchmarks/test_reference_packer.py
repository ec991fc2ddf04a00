"""The reference packers beside numpy's own stable sort of the same lengths, in one run.

LONGCTX_BENCHMARK_SAMPLES sets the number of lengths; 10,000,000 is what docs/performance.md reports.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from pytest_longctx.packing.reference import best_fit_decreasing, first_fit_decreasing

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

CAPACITY = 32_768
SAMPLES = int(os.environ.get("LONGCTX_BENCHMARK_SAMPLES", "200000"))


def lognormal(random):
    return np.clip(random.lognormal(np.log(700), 1.1, SAMPLES), 1, CAPACITY)


def uniform(random):
    return random.integers(1, CAPACITY + 1, SAMPLES)


@pytest.fixture(scope="module", params=[lognormal, uniform], ids=lambda draw: draw.__name__)
def lengths(request):
    return request.param(np.random.default_rng(0)).astype(np.int32)


def stable_sort(lengths, capacity):
    return np.argsort(lengths, kind="stable")


@pytest.mark.parametrize("work", [stable_sort, first_fit_decreasing, best_fit_decreasing])
def test_packer_against_a_sort(benchmark, request, work, lengths):
    benchmark.group = request.node.callspec.id.split("-")[0]
    benchmark.extra_info["samples"] = SAMPLES
    benchmark.pedantic(work, args=(lengths, CAPACITY), rounds=5, warmup_rounds=1)
