"""What transformers 5.24 does with packed rows, architecture by architecture."""

from __future__ import annotations

import importlib.util

import pytest
import transformers

from pytest_longctx.isolation import FORMS, ModelTerms, probe

pytestmark = pytest.mark.skipif(
    not transformers.__version__.startswith("5.24."),
    reason=f"facts of transformers 5.24; {transformers.__version__} is installed and may differ",
)
CALL = {"use_cache": False}


def outcome(architecture, attention, form, forward=CALL, check="logits"):
    checks = ("logits", check) if check != "logits" else (check,)
    return probe(ModelTerms(architecture), attention, FORMS[form], forward, checks=checks)[check]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "mistral", "mixtral", "phi", "phi3"])
def test_restarting_positions_isolate(architecture, attention):
    results = probe(ModelTerms(architecture), attention, FORMS["position_ids"], CALL)
    assert {name: r.outcome for name, r in results.items()} == dict.fromkeys(results, "isolated")
    assert results["gradients"].measured == 0.0
    if architecture != "mixtral":
        assert results["logits"].measured == 0.0


@pytest.mark.parametrize("architecture", ["qwen2", "mistral"])
def test_restarting_positions_isolate_under_flex(architecture):
    results = probe(
        ModelTerms(architecture),
        "flex_attention",
        FORMS["position_ids"],
        CALL,
        checks=("logits", "standalone", "gradients"),
        layouts=[(7, 3, 3, 1)],
    )
    assert results["logits"].outcome == results["standalone"].outcome == "isolated"
    assert results["gradients"].outcome == "unknown"
    assert "does not support backward on CPU" in results["gradients"].message


@pytest.mark.parametrize(
    "architecture", ["gemma2", "gemma3", "gemma3n", "llama4", "olmo3", "gpt2", "deepseek_v3"]
)
def test_restarting_positions_isolate_with_window_chunks_experts_or_learned_positions(architecture):
    results = probe(
        ModelTerms(architecture), "eager", FORMS["position_ids"], CALL, checks=("logits", "standalone")
    )
    assert {r.outcome for r in results.values()} == {"isolated"}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("form", ["ones_mask", "segment_mask", "cumulative_only"])
def test_masks_and_missing_positions_leak(form, attention):
    assert outcome("qwen2", attention, form).outcome == "leaks"


def test_a_default_cache_leaks():
    assert outcome("qwen2", "sdpa", "position_ids", {}).outcome == "leaks"


def test_a_bool_mask_leaks_under_eager_only():
    assert outcome("qwen2", "eager", "bool_block_mask").outcome == "leaks"
    assert outcome("qwen2", "sdpa", "bool_block_mask").outcome == "isolated"


def test_an_additive_mask_isolates():
    assert outcome("qwen2", "eager", "additive_block_mask", check="standalone").outcome == "isolated"


@pytest.mark.parametrize("architecture", ["mistral", "gemma2"])
def test_a_block_mask_loses_the_sliding_window(architecture):
    result = outcome(architecture, "eager", "additive_block_mask", check="standalone")
    assert result.outcome == "wrong"
    assert "from its token 4 on" in result.message  # the tiny window holds four tokens


@pytest.mark.parametrize(
    "architecture", ["gpt_oss", "bloom", "mpt", "opt", "mamba", "mamba2", "falcon_mamba"]
)
@pytest.mark.parametrize("form", ["position_ids", "padding_free"])
def test_architectures_that_leak_in_every_form(architecture, form):
    assert outcome(architecture, "eager", form).outcome == "leaks"


@pytest.mark.skipif(
    any(importlib.util.find_spec(kernel) for kernel in ("causal_conv1d", "mamba_ssm")),
    reason="the kernels whose absence is the matter are installed",
)
@pytest.mark.parametrize("architecture", ["qwen3_next", "lfm2", "granitemoehybrid", "bamba"])
def test_hybrids_leak_by_positions_and_refuse_full_metadata_without_their_kernels(architecture):
    assert outcome(architecture, "eager", "position_ids").outcome == "leaks"
    refused = outcome(architecture, "eager", "padding_free")
    assert refused.outcome == "unknown"
    assert "can't keep packed sequences apart" in refused.message


@pytest.mark.parametrize(
    "form", ["position_ids", "padding_free", "cumulative_only", "one_a_row", "ones_mask"]
)
def test_flash_is_given_the_varlen_kernel(form):
    result = probe(ModelTerms("qwen2"), "flash_attention_2", FORMS[form], CALL, layouts=[(5, 2, 1)])[
        "dispatch"
    ]
    assert result.outcome == "isolated"
    assert result.table[0] == {"kernel": "varlen", "cu_seq_lens": [0, 5, 7, 8], "max_length": 5, "tokens": 8}
    assert len(result.table) == 2  # one call a layer


def test_flash_leaks_with_two_packed_rows():
    result = probe(ModelTerms("qwen2"), "flash_attention_2", FORMS["two_rows"], CALL, layouts=[(5, 2, 1, 4)])
    assert result["dispatch"].outcome == "leaks"
    assert result["dispatch"].table[0] == {"kernel": "dense", "rows": 2, "tokens": 7}


def test_flash_keeps_the_sliding_window_and_the_sinks():
    for architecture in ("mistral", "gemma2", "gpt_oss"):
        result = probe(ModelTerms(architecture), "flash_attention_3", FORMS["position_ids"], CALL)["dispatch"]
        assert result.outcome == "isolated", result.message


def test_flash_of_an_architecture_without_it():
    result = probe(ModelTerms("bloom"), "flash_attention_2", FORMS["position_ids"], CALL)["dispatch"]
    assert result.outcome == "unknown"
    assert "bloom has no flash attention" in result.message


def test_the_call_matrix():
    result = probe(ModelTerms("qwen2"), "sdpa", FORMS["padding_free"], CALL, checks=("call_matrix",))[
        "call_matrix"
    ]
    isolating = {
        (row["mask"], row["cache"], row["metadata"]) for row in result.table if row["outcome"] == "isolated"
    }
    assert isolating == {("none", "off", m) for m in ("full", "position_ids", "no_max_length")}
    assert len(result.table) == 16
    assert [row["metadata"] for row in result.table if row["contract"]] == ["full"]
    assert result.outcome == "isolated"
    assert "of 16 calls 3 isolate, 13 leak, 0 are refused" in result.message


def test_flash_of_an_architecture_that_chooses_its_attention_when_built():
    result = probe(ModelTerms("falcon"), "flash_attention_2", FORMS["position_ids"], CALL)["dispatch"]
    assert result.outcome == "unknown"
    assert "falcon does not run on transformers' flash path" in result.message
