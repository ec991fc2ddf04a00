"""Whole runs on a tiny model, and what they measure."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from pytest_longctx.gpu import headline, lines, measure, samples
from pytest_longctx.gpu.training import Training, single_precision

torch = pytest.importorskip("torch")


def outcomes(record):
    return {name: verdict.outcome for name, verdict in record.checks.items()}


# Lengths 4 and 8: one warm-up step and two counted ones each; then three rounds of padding and packing.
SECONDS = (9, 2, 4, 9, 5, 6, 9, 9, 3.0, 2.0, 8.0, 4.0)


def test_a_run_by_hand(run):
    record = run(SECONDS, limits={"min_packing_speedup": 1.7, "max_peak_memory_gb": 0.0000004})
    four, eight = record.measurements
    assert (four.steps.seconds, four.steps.median_seconds, four.steps.p95_seconds) == ((2, 4), 3, 4)
    assert four.seconds_per_token == 0.75
    assert (eight.length, eight.steps.median_seconds) == (8, 5.5)
    padding, packing = record.comparison.arms
    assert (padding.steps.seconds, packing.steps.seconds) == ((3, 8), (2, 4))
    assert record.comparison.round_ratios == (1.5, 2.0)
    assert record.comparison.speedup == 1.75
    assert (padding.processed_tokens, padding.padding_tokens, padding.supervised_tokens) == (10, 2, 6)
    assert (packing.processed_tokens, packing.padding_tokens, packing.supervised_tokens) == (8, 0, 6)
    assert packing.supervised_tokens_per_second == 6 / 3
    assert [item.peak.allocated_bytes for item in (four, eight, padding, packing)] == [100, 200, 300, 400]
    assert set(outcomes(record).values()) == {"passed"}
    assert (record.evidence, record.decision) == ("measurement", "accept_mechanism")
    assert record.failure is None
    json.dumps(record.to_json())


def test_the_same_steps_start_from_the_same_weights(run):
    """Gradients are cleared and nothing is optimized, so the steps of a batch have one loss and one norm."""
    record = run()
    for steps in (item.steps for item in (*record.measurements, *record.comparison.arms)):
        assert len(set(steps.losses)) == len(set(steps.gradient_norms)) == 1
        assert steps.gradient_norms[0] > 0


def test_the_loss_is_the_cross_entropy(run, terms, device):
    """Against logits and targets of the samples alone, in numpy."""
    from pytest_longctx.gpu.model import build_model
    from pytest_longctx.gpu.workload import workload_of

    record = run(dtype="float32")
    made = build_model(workload_of(terms(dtype="float32"), "real"), device)
    total = count = 0
    drawn = samples.draw_samples([3, 5], 1, made.vocabulary, 42)
    for number in range(2):
        ids, labels, _ = drawn[number]
        with torch.no_grad():
            scores = made.model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].double().numpy()
        for place in np.flatnonzero(labels != -100):
            before = scores[place - 1]
            total += np.log(np.exp(before).sum()) - before[labels[place]]
            count += 1
    agreement = record.comparison.agreement["packing"]
    assert agreement.loss == pytest.approx(total / count, rel=1e-6)
    assert agreement.reference == pytest.approx(total / count, rel=1e-6)
    assert record.comparison.arms[1].steps.losses[0] == pytest.approx(total / count, rel=1e-6)


def test_arms_alternate(run, built):
    shapes = []
    run(build=built(lambda _model, _args, kwargs, _output: shapes.append(tuple(kwargs["input_ids"].shape))))
    padding, packing = (2, 5), (1, 8)
    first = shapes.index(padding)
    losses, rounds, rest = shapes[first : first + 2], shapes[first + 2 : first + 8], shapes[first + 8 :]
    assert losses == [padding, packing]
    assert rounds == [padding, packing] * 3
    assert rest == [padding] * 3 + [packing] * 3  # memory in a pass of its own, then the kernels


def test_half_precision_is_checked_in_single(run):
    record = run(dtype="bfloat16")
    assert record.workload["dtype"] == "bfloat16"
    assert record.comparison.agreement["packing"].dtype == "float32"
    assert record.comparison.agreement["packing"].holds


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_each_attention_isolates(run, attention):
    record = run(attention=attention, dtype="float32")
    assert outcomes(record)["same_supervision"] == "passed"
    assert record.execution["kernels"] == [
        "math" if attention == "eager" else "scaled_dot_product_flash_attention_for_cpu"
    ]


def test_cpu_mode_runs_it_all_and_claims_nothing(terms, tmp_path):
    path = tmp_path / "cpu.json"
    record = measure(terms(limits={"min_packing_speedup": 99.0}), "cpu", record_path=path)
    assert outcomes(record) == {
        "length_curve": "passed",
        "finite": "passed",
        "memory_trend": "passed",
        "packing_boundaries": "passed",
        "same_supervision": "passed",
        "min_packing_speedup": "skipped",
    }
    assert (record.evidence, record.decision) == ("mechanism", "ready_to_measure")
    assert json.loads(path.read_text())["execution"]["clock"] == "perf_counter"
    assert headline(record).startswith("gpu: ")
    assert "scaled_dot_product_flash_attention_for_cpu" in headline(record)
    assert lines(record)[-1] == "  evidence: mechanism, decision: ready_to_measure"


def test_an_arm_with_a_kernel_that_is_not_here(run, fakes, terms, device):
    """On a GPU further arms are tried; what does not run is said, and nothing fails."""
    from pytest_longctx.gpu.compare import Comparing
    from pytest_longctx.gpu.model import build_model
    from pytest_longctx.gpu.workload import workload_of

    workload = workload_of(terms(dtype="float32"), "real")
    made = build_model(workload, device)
    comparing = Comparing(
        Training(made.model, fakes()), workload, replace(device, kind="cuda"), made.vocabulary
    )
    comparing.run()
    found = comparing.comparison()
    assert found.unavailable.keys() == {"packing_flex", "packing_varlen"}
    assert "FlashAttention2" in found.unavailable["packing_varlen"]
    assert [arm.name for arm in found.arms] == ["padding", "packing"]
    assert made.model.config._attn_implementation == "sdpa"


def test_single_precision_comes_back_exactly(terms, device):
    from pytest_longctx.gpu.model import build_model
    from pytest_longctx.gpu.workload import workload_of

    model = build_model(workload_of(terms(dtype="bfloat16"), "real"), device).model
    before = {name: tensor.clone() for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    with single_precision(model):
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    after = dict((*model.named_parameters(), *model.named_buffers()))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert {name: t.dtype for name, t in before.items()} == {name: t.dtype for name, t in after.items()}
