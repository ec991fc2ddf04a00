"""The smallest configuration of an architecture that still has every kind of layer it is known for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN, HEADS, HEAD_SIZE = 64, 4, 16
WINDOW = 4  # tokens; shorter than the probe's long segments
POSITIONS = 512

# Sizes by the names that configuration classes give them. Only fields that a class has are set.
_SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim"), HIDDEN),
    **dict.fromkeys(("lru_width", "embedding_dim", "attention_hidden_size"), HIDDEN),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "ffn_hidden_size", "intermediate_size_mlp"), 2 * HIDDEN),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    "shared_intermediate_size": 32,
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "linear_num_heads"), HEADS),
    **dict.fromkeys(
        ("head_dim", "linear_key_head_dim", "linear_value_head_dim", "linear_head_dim"), HEAD_SIZE
    ),
    **dict.fromkeys(("qk_nope_head_dim", "v_head_dim"), HEAD_SIZE),
    **dict.fromkeys(("linear_num_key_heads", "n_groups", "mamba_n_groups"), 2),
    **dict.fromkeys(("sliding_window", "attention_window_size", "attention_chunk_size"), WINDOW),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token"), 2),
    **dict.fromkeys(("n_group", "topk_group", "num_expert_group"), 1),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), POSITIONS),
    **dict.fromkeys(("state_size", "ssm_state_size", "mamba_d_state", "time_step_rank", "mamba_dt_rank"), 8),
    **dict.fromkeys(("chunk_size", "mamba_chunk_size", "block_size"), 8),
    "linear_num_value_heads": HEADS,
    "qk_rope_head_dim": 8,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "query_pre_attn_scalar": HEAD_SIZE,
    "hidden_size_per_layer_input": 8,
    "laurel_rank": 8,
    "num_kv_shared_layers": 0,
    "first_k_dense_replace": 1,
    "initializer_range": 0.1,  # large enough that one token of another segment shows
    "init_std": 0.1,
}
# A state space model spreads `expand × hidden` channels over heads, under four spellings.
_STATE_HEADS = (
    ("num_heads", "head_dim"),
    ("mamba_n_heads", "mamba_d_head"),
    ("mamba_num_heads", "mamba_head_dim"),
    ("n_mamba_heads", "mamba_headdim"),
)
# What the rules above cannot know.
_SPECIAL: dict[str, dict[str, Any]] = {
    "jamba": {
        "num_hidden_layers": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "use_mamba_kernels": False,
    },
    "zamba2": {"attention_head_dim": 32, "attention_hidden_size": 128, "use_mamba_kernels": False},
    "falcon_h1": {"mamba_d_ssm": 128},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "bamba": {"attn_layer_indices": [1]},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "gemma4_text": {"per_layer_config": None},
}
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_blocks")
_KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "num_query_groups")
_DROPOUT = re.compile(r"drop|jitter")


def tiny_fields(model_type: str, default: Mapping[str, Any], vocabulary_size: int) -> dict[str, Any]:
    """Fields that make a configuration tiny, out of the fields of the full one.

    Kept: layer kinds (one of each, two layers at least), grouped key heads, position scheme, soft caps.
    """
    fields = {key: size for key, size in _SIZES.items() if default.get(key) is not None}
    fields |= {
        key: 0.0 for key, value in default.items() if _DROPOUT.search(key) and isinstance(value, float)
    }
    fields |= {key: vocabulary_size for key in default if key in ("vocab_size", "vocab_size_per_layer_input")}
    if "qk_rope_head_dim" in fields:
        fields["head_dim"] = fields["qk_rope_head_dim"]  # latent attention rotates only this part of a head
    fields |= _key_heads(default) | _state_heads(default) | _layers(default)
    fields |= dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    fields |= _SPECIAL.get(model_type, {})
    return fields


def _key_heads(default: Mapping[str, Any]) -> dict[str, int]:
    heads = default.get("num_attention_heads")
    return {key: HEADS if default[key] == heads else 2 for key in _KEY_HEADS if default.get(key) is not None}


def _state_heads(default: Mapping[str, Any]) -> dict[str, int]:
    channels = HIDDEN * int(default.get("expand") or default.get("mamba_expand") or 2)
    for heads, size in _STATE_HEADS:
        if default.get(heads) is not None and default.get(size) is not None:
            return {heads: channels // 32, size: 32}
    return {}


def _layers(default: Mapping[str, Any]) -> dict[str, Any]:
    """One layer of each kind, in order of appearance, and two at least."""
    fields: dict[str, Any] = {}
    count = 2
    for key in ("layer_types", "layers_block_type", "mlp_layer_types"):
        if kinds := list(dict.fromkeys(default.get(key) or ())):
            fields[key] = kinds if len(kinds) > 1 else kinds * 2
            count = max(count, len(fields[key]))
    for key, kinds in fields.items():
        fields[key] = (kinds * count)[:count]
    return fields | {key: count for key in _LAYER_COUNTS if key in default}
