"""Tiny models: every kind of layer, no dropout, a window shorter than the probe."""

from __future__ import annotations

import pytest
import torch

from pytest_longctx.isolation import architectures, build_model
from pytest_longctx.isolation.tiny import WINDOW, tiny_fields
from tests.releases import since

LAYERS = {
    "qwen2": ["full_attention", "full_attention"],
    "gemma3": ["sliding_attention", "full_attention"],
    "gpt_oss": ["sliding_attention", "full_attention"],
    "llama4": ["chunked_attention", "full_attention"],
    "qwen3_next": ["linear_attention", "full_attention"],
    "lfm2": ["conv", "full_attention"],
    "minimax": ["full_attention", "linear_attention"],
    "jamba": ["linear_attention", "full_attention", "linear_attention", "full_attention"],
    "recurrent_gemma": ["linear_attention", "linear_attention", "sliding_attention"],
}


@since("transformers", "5.24")
@pytest.mark.parametrize("name", LAYERS)
def test_each_kind_of_layer_is_there(name):
    assert list(build_model(name, "eager").config.layer_types) == LAYERS[name]


@pytest.mark.parametrize("name", ["mistral", "gemma2", "gpt_oss"])
def test_the_window_is_short(name):
    assert build_model(name, "eager").config.sliding_window == WINDOW


def test_grouped_key_heads_are_kept():
    assert build_model("mistral", "eager").config.num_key_value_heads == 2  # 8 of 32 in the full size
    assert build_model("llama", "eager").config.num_key_value_heads == 4  # as many as heads


def test_no_dropout_in_training_mode():
    model = build_model("gpt2", "eager")
    assert model.training
    assert {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)} == {0.0}


def test_seeds():
    one, same, other = (build_model("qwen2", "eager", seed=seed).lm_head.weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_dtype_and_vocabulary():
    model = build_model("qwen2", "eager", vocabulary_size=500, dtype="bfloat16")
    assert model.lm_head.weight.shape == (500, 64)
    assert model.lm_head.weight.dtype == torch.bfloat16


def test_sizes_of_fields_that_a_class_has_not_are_not_set():
    assert tiny_fields("new", {"hidden_size": 4096, "vocab_size": 9, "attention_dropout": 0.1}, 77) == {
        "hidden_size": 64,
        "vocab_size": 77,
        "attention_dropout": 0.0,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def test_the_architectures_named_in_the_documentation_exist():
    assert {"qwen2", "qwen3", "llama", "mistral", "gemma2", "phi3", "gpt_oss", "mamba2"} <= set(
        architectures()
    )
