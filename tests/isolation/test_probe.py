"""The probe's own conduct: reasons, errors, determinism, dtypes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch

from pytest_longctx.isolation import (
    CHECKS,
    FORMS,
    ArchitectureError,
    IsolationError,
    Limits,
    ModelTerms,
    NonFiniteError,
    OutOfMemoryError,
    UnavailableError,
    VocabularyError,
    build_model,
    probe,
)
from tests.isolation import mutants
from tests.releases import since

CALL = {"use_cache": False}
POSITIONS = FORMS["position_ids"]


def test_the_package_is_importable_without_torch():
    code = (
        "import sys, pytest_longctx.isolation; print(*(m in sys.modules for m in ('torch', 'transformers')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


def test_the_same_verdict_every_time():
    first, second = (probe(ModelTerms("qwen2"), "sdpa", FORMS["ones_mask"], CALL, seed=3) for _ in range(2))
    assert first == second


def test_global_state_is_left_as_it_was():
    torch.manual_seed(1)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    probe(ModelTerms("qwen2"), "eager", POSITIONS, CALL, checks=("logits",))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("architecture", ["qwen2", "mixtral"])
def test_bfloat16(architecture):
    good = probe(ModelTerms(architecture), "sdpa", POSITIONS, CALL, dtype="bfloat16")
    assert {r.outcome for r in good.values()} == {"isolated"}
    assert good["standalone"].limit == 0.0625  # 8 units in the last place, 2**-7 each
    bad = probe(ModelTerms(architecture), "sdpa", FORMS["ones_mask"], CALL, dtype="bfloat16")
    assert {r.outcome for r in bad.values()} == {"leaks"}


def test_limits_are_scaled_to_the_dtype():
    assert Limits(1e-5, 1e-4).scaled("float32") == Limits(1e-5, 1e-4)
    assert Limits(1e-5, 1e-4).scaled("float16") == Limits(8 * 2.0**-10, 8 * 2.0**-10)
    assert Limits(0.5, 0.5).scaled("bfloat16") == Limits(0.5, 0.5)


def test_a_tight_limit_fails():
    results = probe(ModelTerms("qwen2"), "eager", POSITIONS, CALL, limits=Limits(logits=1e-12, loss=1e-4))
    assert results["standalone"].outcome == "wrong"
    assert results["logits"].outcome == "isolated"


def test_results_are_plain():
    for form in ("position_ids", "ones_mask"):
        results = probe(ModelTerms("qwen2"), "eager", FORMS[form], CALL)
        assert tuple(results) == CHECKS
        json.dumps({name: asdict(result) for name, result in results.items()})


def test_torch_batches_are_the_same_as_numpy():
    def make(samples):
        return {
            k: torch.as_tensor(v) if isinstance(v, np.ndarray) else v for k, v in POSITIONS(samples).items()
        }

    assert probe(ModelTerms("qwen2"), "eager", make, CALL) == probe(
        ModelTerms("qwen2"), "eager", POSITIONS, CALL
    )


def test_labels_of_the_batch_are_used_for_the_loss():
    def make(samples):
        batch = POSITIONS(samples)
        labels = batch["labels"].copy()
        labels[batch["position_ids"] < 2] = -100  # a prompt of two tokens each
        return batch | {"labels": labels}

    result = probe(ModelTerms("qwen2"), "eager", make, CALL, checks=("loss",), layouts=[(5, 3, 1)])["loss"]
    assert result.outcome == "isolated"
    assert "over 4 targets" in result.message


def test_a_batch_without_a_target():
    def make(samples):
        batch = POSITIONS(samples)
        return batch | {"labels": np.full_like(batch["input_ids"], -100)}

    result = probe(ModelTerms("qwen2"), "eager", make, CALL, checks=("loss",))["loss"]
    assert (result.outcome, "no sample" in result.message) == ("unknown", True)


def test_nothing_is_added_to_the_call():
    seen = []
    model = mutants.with_call(lambda kwargs: seen.append(set(kwargs)) or kwargs)
    probe(model, "eager", POSITIONS, {"use_cache": False, "logits_to_keep": 0}, checks=("logits",))
    packed = {frozenset(keys) for keys in seen}
    assert packed == {
        frozenset({"input_ids", "position_ids", "use_cache", "logits_to_keep"}),
        frozenset({"input_ids", "use_cache"}),  # a sample alone
    }


@since("transformers", "5.24")
def test_flash_on_a_cpu_says_why_not():
    results = probe(ModelTerms("qwen2"), "flash_attention_2", POSITIONS, CALL)
    assert {results[name].outcome for name in CHECKS} == {"unknown"}
    assert "flash_attention_2 kernels need a CUDA device" in results["logits"].message
    assert results["dispatch"].message.startswith("dispatch, not the kernel: the varlen kernel")


@pytest.mark.parametrize("attention", ["eager", "flash_attention_2"])
def test_a_cuda_device_where_there_is_none(monkeypatch, attention):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnavailableError, match="torch finds no CUDA device") as raised:
        build_model("no model is looked for", attention, device="cuda")
    assert raised.value.requirement == "gpu"
    results = probe(ModelTerms("qwen2"), attention, POSITIONS, CALL, device="cuda")
    assert {(r.outcome, r.requirement) for r in results.values()} == {("unknown", "gpu")}
    assert "isolation.device: cuda, but torch finds" in results["logits"].message


def test_an_attention_that_the_architecture_lacks():
    result = probe(ModelTerms("bloom"), "sdpa", POSITIONS, CALL)["logits"]
    assert result.outcome == "unknown"
    assert "bloom does not run with sdpa here" in result.message
    with pytest.raises(UnavailableError):
        build_model("bloom", "sdpa")


def test_a_call_that_the_model_refuses_is_no_pass():
    results = probe(
        ModelTerms("qwen2"), "eager", lambda s: POSITIONS(s) | {"inputs_embeds": np.zeros((1, 1))}, CALL
    )
    assert {r.outcome for r in results.values()} == {"unknown"}
    assert "the model refuses this call (ValueError" in results["logits"].message


def test_an_unknown_architecture_names_its_neighbours():
    with pytest.raises(ArchitectureError, match=r"'qwen22' is no folder.*near: qwen2,"):
        probe(ModelTerms("qwen22"), "eager", POSITIONS, CALL)


def test_an_unknown_attention_names_its_neighbour():
    with pytest.raises(ArchitectureError, match=r"'spda' is none of eager, sdpa.*did you mean sdpa"):
        probe(ModelTerms("qwen2"), "spda", POSITIONS, CALL)


def test_a_folder_without_a_configuration(tmp_path):
    with pytest.raises(ArchitectureError, match="no configuration could be read"):
        probe(ModelTerms(str(tmp_path)), "eager", POSITIONS, CALL)


def test_a_folder_with_weights_and_without(tmp_path):
    model = build_model("mistral", "eager", vocabulary_size=300)
    model.save_pretrained(tmp_path)
    own = build_model(str(tmp_path), "sdpa", weights=True)
    assert torch.equal(own.get_input_embeddings().weight, model.get_input_embeddings().weight)
    tiny = build_model(str(tmp_path), "sdpa", vocabulary_size=99)
    assert tiny.config.sliding_window == 4
    assert tiny.config.vocab_size == 99
    results = probe(ModelTerms(str(tmp_path), weights=True), "sdpa", POSITIONS, CALL)
    assert {r.outcome for r in results.values()} == {"isolated"}


def test_a_folder_with_a_config_but_no_weights(tmp_path):
    build_model("qwen2", "eager").config.save_pretrained(tmp_path)
    with pytest.raises(ArchitectureError, match="no weights could be read"):
        build_model(str(tmp_path), "eager", weights=True)


def test_ids_beyond_the_vocabulary():
    def make(samples):
        return {k: np.pad(v, ((0, 0), (0, 1)), constant_values=256) for k, v in POSITIONS(samples).items()}

    with pytest.raises(VocabularyError, match="token id 256 and the model has ids 0 to 255"):
        probe(ModelTerms("qwen2"), "eager", make, CALL)


def test_a_vocabulary_too_small_for_the_probe():
    with pytest.raises(VocabularyError, match="a vocabulary of 40 ids is too small"):
        probe(ModelTerms("qwen2", vocabulary_size=40), "eager", POSITIONS, CALL)


def test_a_model_that_returns_nan():
    model = mutants.with_states(lambda x: x * float("nan"))
    with pytest.raises(NonFiniteError, match="NaN or infinite logits"):
        probe(model, "eager", POSITIONS, CALL)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB"),
        RuntimeError("not enough memory: 9"),
    ],
)
def test_out_of_memory_says_what_to_shrink(error):
    def raise_it(_):
        raise error

    with pytest.raises(OutOfMemoryError, match="lower the vocabulary"):
        probe(mutants.with_states(raise_it), "eager", POSITIONS, CALL)


def test_a_batch_that_loses_a_sample():
    with pytest.raises(IsolationError, match=r"segment 4 \(6 tokens\) 0 times, expected 1"):
        probe(ModelTerms("qwen2"), "eager", lambda samples: POSITIONS(samples[:4]), CALL)


def test_a_batch_without_ids():
    with pytest.raises(IsolationError, match="the batch has no input_ids; it has tokens"):
        probe(ModelTerms("qwen2"), "eager", lambda _: {"tokens": 1}, CALL)


def test_a_packer_whose_layout_depends_on_ids():
    def make(samples):
        return POSITIONS(sorted(samples, key=lambda ids: int(ids[0])))

    with pytest.raises(IsolationError, match="moved the probe's samples"):
        probe(ModelTerms("qwen2"), "eager", make, CALL, checks=("logits",), layouts=[(3, 3, 3, 3)])


def test_a_window_that_the_probe_does_not_reach_is_named():
    result = probe(
        ModelTerms("mistral"), "eager", POSITIONS, CALL, checks=("standalone",), layouts=[(3, 4, 2)]
    )
    assert "its sliding window of 4 tokens is longer" in result["standalone"].message
    reached = probe(
        ModelTerms("mistral"), "eager", POSITIONS, CALL, checks=("standalone",), layouts=[(3, 5, 2)]
    )
    assert "sliding window" not in reached["standalone"].message
