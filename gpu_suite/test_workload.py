"""Every item of the workload as a benchmark, and every check of its section as a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_longctx.gpu import Replay, demanded, extra_info, items_of

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from pytest_longctx.gpu import Record

pytestmark = pytest.mark.gpu


@pytest.fixture
def benchmarked(request: pytest.FixtureRequest, suite: Any, record: Record, item: str) -> BenchmarkFixture:
    """The benchmark fixture on a timer that gives back what the harness has recorded for the item."""
    if suite.mode == "dry_run" and not suite.required:
        pytest.skip(f"{item} is planned: run with --longctx-gpu=real on a CUDA device")
    measured = items_of(record).get(item)
    if measured is None:
        stage = record.failure.stage if record.failure else record.mode
        message = record.failure.message if record.failure else "a GPU is required, and this is a dry run"
        pytest.fail(f"{item} not measured, stage {stage}: {message}", pytrace=False)
    kind = "length" if item.startswith("length_") else "arms"
    group = f"{kind} {record.workload['fingerprint']} on {record.hardware['fingerprint']}"
    request.node.add_marker(
        pytest.mark.benchmark(timer=Replay(measured.steps.seconds), group=group, disable_gc=False)
    )
    benchmark = request.getfixturevalue("benchmark")
    benchmark.extra_info.update(extra_info(record, measured))
    return benchmark


def test_item(item: str, suite: Any, record: Record, benchmarked: BenchmarkFixture) -> None:
    """The item ran, with all the steps that count."""
    benchmarked.pedantic(lambda: None, rounds=record.workload["repeat_steps"], iterations=1)
    assert benchmarked.stats is not None, "pytest-benchmark kept no numbers"
    assert benchmarked.stats.stats.rounds == record.workload["repeat_steps"]
    suite.ran.add(item)


def test_check(check: str, suite: Any, record: Record) -> None:
    """The check's verdict: passed, skipped with its reason, or failed."""
    checks = demanded(record.checks, record.mode) if suite.required else record.checks
    verdict = checks[check]
    told = "\n".join([verdict.headline, *verdict.context, *map(str, verdict.witnesses), verdict.advice])
    suite.ran.add(check)
    if verdict.outcome == "skipped":
        pytest.skip(f"{verdict.headline}; {verdict.advice}")
    if verdict.outcome == "failed":
        pytest.fail(told.strip(), pytrace=False)
