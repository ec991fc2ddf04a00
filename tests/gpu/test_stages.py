"""Every stage that fails leaves its record, and no check that was not reached has passed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pytest_longctx.gpu import UnavailableError, headline, measure, samples
from pytest_longctx.gpu.training import Training

torch = pytest.importorskip("torch")


def outcomes(record):
    return {name: verdict.outcome for name, verdict in record.checks.items()}


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
