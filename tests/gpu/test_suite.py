"""`gpu_suite/` as it is run: its modes, its gate, and pytest-benchmark's own files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).parents[2] / "gpu_suite"
WORKLOAD = """
model: {architecture: qwen2, size: tiny}
sequence_lengths: [4, 8]
packing_sample_lengths: [3, 5]
warmup_steps: 1
repeat_steps: 3
limits: {min_packing_speedup: 1.1}
"""
CHECKS = [
    "length_curve",
    "finite",
    "memory_trend",
    "packing_boundaries",
    "same_supervision",
    "min_packing_speedup",
]

pytest.importorskip("torch")
pytest.importorskip("pytest_benchmark")


@pytest.fixture(autouse=True)
def _not_a_worker(monkeypatch):
    """The suite runs in a process of its own; pytest-benchmark must not take it for a worker of this run."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(tmp_path):
    """Run the suite on a few tokens: (exit status, output)."""

    def run(*arguments):
        workload = tmp_path / "workload.yaml"
        workload.write_text(WORKLOAD)
        command = [
            sys.executable,
            "-m",
            "pytest",
            str(SUITE),
            f"--gpu-workload={workload}",
            "-p",
            "no:cacheprovider",
        ]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        done = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            cwd=SUITE.parent,
            env=environment,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_without_a_gpu_everything_is_skipped_and_said(run):
    status, output = run("--longctx-gpu=dry_run")
    assert status == 0
    assert "10 skipped" in output
    assert "gpu: dry run, nothing was measured" in output
    assert "decision: ready_to_measure" in output


def test_a_gpu_that_is_required_and_missing_fails(run):
    status, output = run("--longctx-require=gpu", "--longctx-gpu=dry_run")
    assert status == 1
    assert "6 failed, 4 errors" in output
    assert "finite is required, and this is a dry_run run" in output
    assert "length_4 not measured, stage dry_run: a GPU is required" in output


def test_a_real_run_without_a_gpu_fails(run, tmp_path):
    record = tmp_path / "a.json"
    status, output = run("--longctx-gpu=real", f"--gpu-record={record}")
    assert status == 1
    assert "a CUDA device is demanded" in output
    found = json.loads(record.read_text())
    assert (found["failure"]["stage"], found["decision"]) == ("device", "not_measured")


def test_on_a_cpu_benchmarks_hold_the_record(run, tmp_path):
    record, benchmarks = tmp_path / "record.json", tmp_path / "benchmarks.json"
    status, output = run("--longctx-gpu=cpu", f"--gpu-record={record}", f"--benchmark-json={benchmarks}")
    assert status == 0, output
    assert "9 passed, 1 skipped" in output
    assert "scaled_dot_product_flash_attention_for_cpu" in output
    found = json.loads(record.read_text())
    arms = {arm["name"]: arm for arm in found["comparison"]["arms"]}
    expected = {f"length_{item['length']}": item for item in found["measurements"]} | arms
    told = {bench["params"]["item"]: bench for bench in json.loads(benchmarks.read_text())["benchmarks"]}
    assert told.keys() == {"length_4", "length_8", "padding", "packing"}
    for name, bench in told.items():
        assert bench["stats"]["data"] == pytest.approx(expected[name]["steps"]["seconds"])
        assert bench["stats"]["median"] == pytest.approx(expected[name]["steps"]["median_seconds"])
        assert bench["extra_info"]["peak_allocated_bytes"] == expected[name]["peak"]["allocated_bytes"]
        assert bench["extra_info"]["hardware"] == found["hardware"]["fingerprint"]
    assert told["packing"]["extra_info"]["supervised_tokens"] == 6
    assert told["padding"]["group"] == told["packing"]["group"] != told["length_4"]["group"]


def test_items_that_are_left_out_fail(run):
    status, output = run("--longctx-gpu=cpu", "-k", "of_another_name")
    assert status == 1
    items = ["length_4", "length_8", "padding", "packing", *CHECKS]
    assert f"declared and not run: {', '.join(items)}" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmark-disable"], "cannot run with --benchmark-skip or --benchmark-disable"),
        (["-n2"], "does not run under pytest-xdist"),
        (["-p", "no:benchmark"], "needs pytest-benchmark"),
    ],
)
def test_what_would_measure_nothing_is_refused(run, arguments, message):
    status, output = run("--longctx-gpu=cpu", *arguments)
    assert status == 4
    assert message in output
