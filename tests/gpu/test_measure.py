"""Whole runs on a tiny model: what they measure, and that every stage that fails leaves its record."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from pytest_longctx.gpu import UnavailableError, headline, lines, measure, samples
from pytest_longctx.gpu.training import Training, single_precision

torch = pytest.importorskip("torch")


@pytest.fixture
def run(fakes, terms, device):
    """A run that judges as on a GPU, with times and bytes that are told to it."""

    def run(seconds=(1.0,), sizes=(100, 200, 300, 400), mode="real", build=None, record_path=None, **keys):
        return measure(
            terms(**keys),
            mode,
            find_device=lambda _mode: device,
            instruments=fakes(seconds, sizes),
            build=build,
            record_path=record_path,
        )

    return run


@pytest.fixture
def built():
    """Build the tiny model with a hook on its forward pass: it may change the output, or raise."""

    def built(hook):
        def build(workload, device):
            from pytest_longctx.gpu.model import build_model

            made = build_model(workload, device)
            made.model.register_forward_hook(hook, with_kwargs=True)
            return made

        return build

    return built


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


# Failing stages


def fails(record, stage, kind):
    """The run failed there, said so in its record, and left no check that it did not reach as passed."""
    assert (record.failure.stage, record.failure.kind) == (stage, kind)
    assert record.to_json()["failure"]["kind"] == kind
    assert "failed" in outcomes(record).values()
    return outcomes(record)


def test_no_device(terms):
    def find_device(_mode):
        raise UnavailableError("a CUDA device is demanded")

    record = measure(terms(), "real", find_device=find_device)
    assert set(fails(record, "device", "unavailable").values()) == {"failed"}
    assert (record.evidence, record.decision) == ("none", "not_measured")
    assert headline(record) == "gpu: nothing was measured: a CUDA device is demanded"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"architecture": "no_such", "size": "tiny"}, "no architecture"),
        ({"architecture": "qwen2", "size": "9t"}, "size '9t' is none of tiny, 0.5b"),
        ({"architecture": "gpt2", "size": "0.5b"}, "gpt2 has no hidden_size"),
    ],
)
def test_the_model_stage(run, tmp_path, model, message):
    from pytest_longctx.contract import RandomModel

    path = tmp_path / "a.json"
    record = run(model=RandomModel(**model), record_path=path)
    assert set(fails(record, "model", "unavailable").values()) == {"failed"}
    assert message in record.failure.message
    assert record.decision == "not_measured"
    assert json.loads(path.read_text())["failure"]["stage"] == "model"


def test_a_hub_model_that_cannot_be_had(run, monkeypatch, tmp_path):
    from pytest_longctx.contract import HubModel

    record = run(model=HubModel(id=str(tmp_path / "none"), revision="0" * 40))
    fails(record, "model", "unavailable")


def test_a_hub_model_of_another_commit(run, tmp_path, monkeypatch):
    from transformers import AutoModelForCausalLM

    from pytest_longctx.contract import HubModel

    class Other:
        class config:  # noqa: N801
            _commit_hash = "1" * 40

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: Other())
    record = run(model=HubModel(id="a/b", revision="0" * 40))
    fails(record, "model", "unavailable")
    assert f"commit {'0' * 40} was asked for, {'1' * 40} came" in record.failure.message


def test_weights_of_a_folder(run, tmp_path, terms, device):
    from pytest_longctx.contract import HubModel
    from pytest_longctx.gpu.model import build_model
    from pytest_longctx.gpu.workload import workload_of

    build_model(workload_of(terms(dtype="float32"), "real"), device).model.save_pretrained(tmp_path)
    record = run(model=HubModel(id=str(tmp_path), revision="0" * 40))
    assert record.failure is None
    assert record.model["requested_revision"] == "0" * 40
    assert record.model["parameters"] > 0


def test_the_length_curve_stage(run, built, tmp_path):
    def hook(_model, _args, kwargs, _output):
        if kwargs["input_ids"].shape[1] == 8:
            raise ValueError("positions end at 7")

    path = tmp_path / "a.json"
    record = run(build=built(hook), record_path=path)
    found = fails(record, "length_curve", "error")
    assert set(found.values()) == {"failed"}
    assert (record.failure.place, record.failure.message) == ("8 tokens", "ValueError: positions end at 7")
    assert [item.length for item in record.measurements] == [4]
    assert record.checks["length_curve"].measured == 1
    assert json.loads(path.read_text())["measurements"][0]["length"] == 4
    assert record.decision == "reject_until_fixed"


def test_out_of_memory(run, built, tmp_path):
    def hook(_model, _args, kwargs, _output):
        if kwargs["input_ids"].shape[1] == 8:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    path = tmp_path / "a.json"
    record = run(build=built(hook), record_path=path)
    fails(record, "length_curve", "out_of_memory")
    verdict = record.checks["length_curve"]
    assert verdict.headline == "length_curve not measured: out of memory in stage length_curve at 8 tokens"
    assert "more memory" in verdict.advice
    assert json.loads(path.read_text())["failure"]["kind"] == "out_of_memory"


def test_the_packing_stage(run, built):
    def hook(_model, _args, kwargs, _output):
        if kwargs["input_ids"].shape == (2, 5):
            raise RuntimeError("boom")

    record = run(build=built(hook))
    found = fails(record, "packing", "error")
    assert found["length_curve"] == found["memory_trend"] == "passed"
    assert found["packing_boundaries"] == "passed"  # the layouts were right before the step broke
    assert found["same_supervision"] == found["finite"] == "failed"
    assert record.failure.place == "losses of both arms"


def test_a_wrong_layout_is_never_timed(run, built, monkeypatch):
    def leaking(rows):
        fields = right(rows)
        return {**fields, "attention_mask": np.tril(np.ones_like(fields["attention_mask"]))}

    right = samples.block_mask
    monkeypatch.setattr(samples, "block_mask", leaking)
    shapes = []
    record = run(
        build=built(lambda _model, _args, kwargs, _output: shapes.append(tuple(kwargs["input_ids"].shape))),
        limits={"min_packing_speedup": 1.0},
    )
    found = fails(record, "packing", "layout")
    assert (
        found["packing_boundaries"] == found["min_packing_speedup"] == found["same_supervision"] == "failed"
    )
    assert "mask_agrees" in record.checks["packing_boundaries"].headline
    assert record.comparison.arms == ()
    assert (2, 5) not in shapes
    assert record.decision == "reject_until_fixed"


def test_a_leak_shows_in_the_loss(run, monkeypatch):
    """What no layout can tell: the mask is right in the batch and lost on its way to the model."""

    def tensors(self, fields, attention):
        found = whole(self, fields, attention)
        if "attention_mask" in found and found["attention_mask"].dim() == 4:
            found["attention_mask"] = torch.ones_like(found["attention_mask"]).tril()
        return found

    whole = Training.tensors
    monkeypatch.setattr(Training, "tensors", tensors)
    record = run(limits={"min_packing_speedup": 0.5})
    assert record.failure is None
    assert outcomes(record)["same_supervision"] == "failed"
    assert record.checks["same_supervision"].measured > 1e-6
    assert record.checks["min_packing_speedup"].headline.startswith("min_packing_speedup means nothing")
    assert record.decision == "reject_until_fixed"


def test_losses_that_are_no_numbers(run, built):
    def hook(_model, _args, kwargs, output):
        if kwargs["input_ids"].shape[1] == 8 and output.loss is not None:
            output.loss = output.loss * float("nan")
        return output

    record = run(build=built(hook))
    assert outcomes(record)["finite"] == "failed"
    assert record.checks["finite"].witnesses[0] == {
        "where": "length 8",
        "step": 1,
        "loss": "nan",
        "gradient_norm": "nan",
    }
    assert record.to_json()["measurements"][1]["steps"]["losses"] == [None, None]
    assert record.decision == "reject_until_fixed"


def test_memory_that_falls(run):
    record = run(sizes=(1000, 990, 1000, 1000))
    verdict = record.checks["memory_trend"]
    assert (verdict.outcome, verdict.limit) == ("failed", 0.005)
    assert verdict.measured == pytest.approx(0.01)
    assert outcomes(run(sizes=(1000, 996, 1000, 1000)))["memory_trend"] == "passed"


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
