"""The second run beside the first, and two cores beside one; over files, from reading to ledger."""

from __future__ import annotations

import json
import os
import shutil
import time
from types import SimpleNamespace

import pytest

from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence
from pytest_longctx.settings import Settings
from tests.benchmarks.chats import ROWS, SHORT, chats, tokenizer, tokenizer_path, told

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

CONTRACT = """contract: 1
tokenizer: {{path: "{path}", chat_template: chat.jinja}}
dataset: {{path: chats.jsonl}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A contract on chats, and functions that write them and measure them."""
    folder = tmp_path_factory.mktemp("cache")
    rows = [{"messages": row.messages} for row in chats(ROWS, SHORT, 3)]
    (folder / "chat.jinja").write_text(tokenizer("deepseek").template, encoding="utf-8")
    (folder / "c.yaml").write_text(CONTRACT.format(path=tokenizer_path("deepseek")), encoding="utf-8")

    def write(changed=0):
        for number in range(changed):
            rows[number * len(rows) // changed]["messages"][1]["content"] += f" {time.monotonic_ns()}"
        text = "\n".join(json.dumps(row) for row in rows)
        (folder / "chats.jsonl").write_text(text, encoding="utf-8")

    loaded = tokenizer("deepseek")

    def measure(**settings):
        evidence = Evidence(load_contract(folder / "c.yaml"), settings=Settings(**settings))
        evidence.__dict__["tokenizer"] = loaded  # the same for any number of rows
        return int(evidence.measured.ledger.total.sum())

    write()
    return SimpleNamespace(
        folder=folder, cache=folder / "cache", write=write, measure=measure, scale=told(ROWS, measure())
    )


@pytest.fixture
def one_thread(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")


def first(project):
    shutil.rmtree(project.cache, ignore_errors=True)
    project.measure(cache=project.cache)


def test_a_second_run_of_the_same(benchmark, ratio, one_thread, project):
    benchmark.group = "cache"
    ratio(
        lambda: project.measure(cache=project.cache),
        lambda: first(project),
        what="rows to ledger: second run, nothing changed / first run",
        reach="≤ 0.05",
        scale=project.scale,
        rounds=2,
        warm=False,
        clock=time.process_time,
    )


def test_a_second_run_with_a_hundredth_changed(benchmark, ratio, one_thread, project):
    changed = max(1, ROWS // 100)
    benchmark.group = "cache"

    def second():
        project.measure(cache=project.cache)

    def before():
        first(project)
        project.write(changed)

    ratio(
        second,
        before,
        what="rows to ledger: second run, 1 % of the rows changed / first run",
        reach="≤ 0.1",
        scale=project.scale,
        rounds=2,
        warm=False,
        clock=time.process_time,
    )


def test_the_cache_of_a_first_run(benchmark, ratio, one_thread, project):
    benchmark.group = "cache"
    ratio(
        lambda: first(project),
        project.measure,
        what="rows to ledger: first run with a cache / without",
        reach="≤ 1.1",
        scale=project.scale,
        rounds=2,
        clock=time.process_time,
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs sched_setaffinity, to use one core")
def test_two_cores(benchmark, ratio, one_thread, project):
    """By the clock: both cores must be idle. One process renders while its tokenizer works."""
    benchmark.group = "cores"
    cores = os.sched_getaffinity(0)

    def one_core():
        os.sched_setaffinity(0, {min(cores)})
        try:
            project.measure()
        finally:
            os.sched_setaffinity(0, cores)

    ratio(
        project.measure,
        one_core,
        what="rows to ledger: two cores, times as fast as one",
        reach="≥ 1.7",
        scale=project.scale,
        rounds=2,
    )
