from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_longctx.contract import GpuSection, RandomModel
from pytest_longctx.gpu.workload import items, plan, workload_of


def test_the_defaults_are_the_published_workload():
    workload = workload_of(GpuSection(), "real")
    assert workload.model["id"] == "Qwen/Qwen2.5-0.5B"
    assert workload.sequence_lengths == (128, 256, 512)
    assert items(workload) == ["length_128", "length_256", "length_512", "padding", "packing"]


def test_the_plan_counts_tokens_by_hand():
    """48, 96, 32, 64 tokens in rows of 96: 384, of which 144 are padding; a quarter of each is prompt."""
    by_name = {item["item"]: item for item in plan(workload_of(GpuSection(), "dry_run"))}
    assert by_name["length_128"] == {
        "item": "length_128",
        "rows": 1,
        "width": 128,
        "processed_tokens": 128,
        "padding_tokens": 0,
        "supervised_tokens": 127,
    }
    assert by_name["padding"]["processed_tokens"] == 384
    assert by_name["padding"]["padding_tokens"] == 144
    assert by_name["packing"]["processed_tokens"] == 240
    assert (
        by_name["padding"]["supervised_tokens"]
        == by_name["packing"]["supervised_tokens"]
        == 36 + 72 + 24 + 48
    )


def test_a_batch_of_two_holds_every_sample_twice():
    by_name = {item["item"]: item for item in plan(workload_of(GpuSection(batch_size=2), "real"))}
    assert (by_name["padding"]["rows"], by_name["packing"]["rows"]) == (8, 2)
    assert by_name["packing"]["supervised_tokens"] == 360


def test_a_cpu_run_is_small():
    workload = workload_of(GpuSection(sequence_lengths=[3, 4, 4096], attention="flash_attention_2"), "cpu")
    assert workload.divided_by == 32
    assert workload.sequence_lengths == (2, 3, 128)  # strictly increasing still
    assert workload.packing_sample_lengths == (2, 3, 2, 2)
    assert (workload.model["architecture"], workload.model["size"]) == ("qwen2", "tiny")
    assert (workload.attention, workload.dtype) == ("sdpa", "float32")


def test_a_cpu_run_keeps_the_architecture():
    terms = GpuSection(model=RandomModel(architecture="llama", size="0.5b"))
    assert workload_of(terms, "cpu").model["architecture"] == "llama"


@pytest.mark.parametrize("change", [{"seed": 1}, {"repeat_steps": 9}, {"sequence_lengths": [128, 256]}])
def test_the_fingerprint_is_of_what_runs(change):
    assert (
        workload_of(GpuSection(), "real").fingerprint != workload_of(GpuSection(**change), "real").fingerprint
    )


def test_the_fingerprint_is_not_of_limits():
    loose = GpuSection(limits={"max_peak_memory_gb": 8.0}, memory_trend_tolerance=0.1, baseline="a.json")
    assert workload_of(GpuSection(), "real").fingerprint == workload_of(loose, "real").fingerprint
    assert workload_of(GpuSection(), "real", "float16").fingerprint != workload_of(loose, "real").fingerprint


def test_a_dry_run_needs_no_torch(tmp_path):
    code = (
        "import sys; from pytest_longctx.contract import GpuSection; from pytest_longctx.gpu import measure\n"
        "record = measure(GpuSection(), 'dry_run')\n"
        "assert 'torch' not in sys.modules\n"
        "print(record.decision, record.evidence, *(v.outcome for v in record.checks.values()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["ready_to_measure", "plan", *["skipped"] * 5]
