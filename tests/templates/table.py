"""Per training template of TRL 1.16.0: which cases it refuses, and of which content does not survive.

Lossy is where it drops text of an assistant, writes parts as source, or reasoning twice.

All other cases of the grammar are supported. A template whose digest is another one is not held to this.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Support:
    """Cases of the grammar by what a template makes of them; digest: first 8 hex digits of its SHA-256."""

    digest: str
    refused: frozenset[str]
    lossy: frozenset[str]


def of(digest, refused, lossy):
    return Support(digest, frozenset(refused.split()), frozenset(lossy.split()))


TABLE = {
    "cohere2_training": of(
        "7e5836a7",
        "tool_call tool_call_with_text two_tool_calls tool_call_content_null arguments_as_text",
        "unknown_role reasoning reasoning_twice tool_call_last parts",
    ),
    "cohere_training": of(
        "5f9718bf",
        "parts tool_call tool_call_with_text two_tool_calls tool_call_content_null arguments_as_text",
        "unknown_role reasoning reasoning_twice tool_call_last",
    ),
    "deepseek_r1_distill_training": of(
        "439ca50e",
        "parts tool_call_content_null",
        "unknown_role reasoning reasoning_twice tool_call tool_call_with_text two_tool_calls "
        "tool_call_last arguments_as_text",
    ),
    "deepseekv3_training": of(
        "aadb4942",
        "parts tool_call_content_null",
        "unknown_role reasoning reasoning_twice think_in_content",
    ),
    "diffusion_gemma_training": of(
        "cf1664f3",
        "arguments_as_text",
        "reasoning_twice",
    ),
    "gemma3_training": of(
        "959b257e",
        "tool_call tool_call_with_text two_tool_calls tool_call_content_null arguments_as_text",
        "reasoning reasoning_twice tool_call_last",
    ),
    "gemma_training": of(
        "f825de9a",
        "system system_several_turns tools_system tool_call tool_call_with_text two_tool_calls "
        "tool_call_content_null arguments_as_text",
        "reasoning reasoning_twice tool_call_last parts",
    ),
    "glm4moe_training": of(
        "18cbc512",
        "arguments_as_text",
        "unknown_role reasoning_twice",
    ),
    "gptoss_training": of(
        "6adda7ce",
        "parts",
        "unknown_role reasoning_twice tool_call_with_text two_tool_calls",
    ),
    "idefics3_training": of(
        "b3d23022",
        "empty_answer empty_user empty_earlier_answer tool_call two_tool_calls tool_call_last "
        "tool_call_content_null arguments_as_text",
        "one_turn system several_turns system_several_turns last_turn_user emoji right_to_left "
        "long_word white_space one_letter same_texts markup unknown_role reasoning reasoning_twice "
        "think_in_content tools_unused tools_system tool_call_with_text tool_calls_null",
    ),
    "lfm2_training": of(
        "fc29163f",
        "tool_call_content_null",
        "reasoning reasoning_twice tool_call tool_call_with_text two_tool_calls tool_call_last "
        "arguments_as_text parts",
    ),
    "lfm2_v2_training": of(
        "fd9c5f7c",
        "arguments_as_text",
        "reasoning reasoning_twice parts",
    ),
    "llama3_training": of(
        "9dce981e",
        "",
        "reasoning reasoning_twice tool_call tool_call_with_text two_tool_calls tool_call_last "
        "tool_call_content_null arguments_as_text parts",
    ),
    "llava_next_training": of(
        "27c0b73c",
        "one_turn system several_turns system_several_turns last_turn_user empty_answer empty_user "
        "empty_earlier_answer emoji right_to_left long_word white_space one_letter same_texts "
        "markup unknown_role reasoning reasoning_twice think_in_content tools_unused tools_system "
        "tool_call tool_call_with_text two_tool_calls tool_call_last tool_calls_null "
        "tool_call_content_null arguments_as_text",
        "",
    ),
    "muse_glimmer_training": of(
        "6eec84cc",
        "arguments_as_text",
        "unknown_role tool_call_with_text",
    ),
    "nemotron_3_5_lightning_training": of(
        "a44efc49",
        "arguments_as_text",
        "reasoning_twice parts",
    ),
    "nemotron_3_nano_training": of(
        "f52a4a70",
        "arguments_as_text",
        "reasoning_twice parts",
    ),
    "nemotron_3_super_training": of(
        "d3859585",
        "arguments_as_text",
        "reasoning_twice parts",
    ),
    "nemotron_3_ultra_training": of(
        "d61cca23",
        "arguments_as_text",
        "reasoning_twice parts",
    ),
    "phi3_5_training": of(
        "a76a9651",
        "parts tool_call_content_null",
        "unknown_role reasoning reasoning_twice tool_call tool_call_with_text two_tool_calls "
        "tool_call_last arguments_as_text",
    ),
    "phi3_training": of(
        "f00b774c",
        "parts tool_call_content_null",
        "unknown_role reasoning reasoning_twice tool_call tool_call_with_text two_tool_calls "
        "tool_call_last arguments_as_text",
    ),
    "qwen2_5_training": of(
        "0cd86fb8",
        "parts",
        "unknown_role reasoning reasoning_twice",
    ),
    "qwen2_5_vl_training": of(
        "31c85932",
        "",
        "reasoning reasoning_twice tool_call tool_call_with_text two_tool_calls tool_call_last "
        "tool_call_content_null arguments_as_text",
    ),
    "qwen3_5_nothink_training": of(
        "f32fe3e2",
        "unknown_role arguments_as_text",
        "",
    ),
    "qwen3_5_think_training": of(
        "ccf356d8",
        "unknown_role arguments_as_text",
        "",
    ),
    "qwen3_6_training": of(
        "c5a26eaf",
        "unknown_role arguments_as_text",
        "",
    ),
    "qwen3_8_training": of(
        "320c2f73",
        "unknown_role arguments_as_text",
        "think_in_content",
    ),
    "qwen3_instruct_2507_training": of(
        "48e17aa3",
        "",
        "unknown_role reasoning reasoning_twice parts",
    ),
    "qwen3_training": of(
        "1d944ff8",
        "",
        "unknown_role parts",
    ),
    "qwen3_vl_training": of(
        "66bd8198",
        "",
        "unknown_role reasoning reasoning_twice",
    ),
    "smolvlm_training": of(
        "7bdde450",
        "empty_answer empty_user empty_earlier_answer tool_call two_tool_calls tool_call_last "
        "tool_call_content_null arguments_as_text",
        "one_turn system several_turns system_several_turns last_turn_user emoji right_to_left "
        "long_word white_space one_letter same_texts markup unknown_role reasoning reasoning_twice "
        "think_in_content tools_unused tools_system tool_call_with_text tool_calls_null",
    ),
}

TERMINATORS = {
    "cohere2_training": ("<|END_RESPONSE|><|END_OF_TURN_TOKEN|>",),
    "cohere_training": ("<|END_OF_TURN_TOKEN|>",),
    "deepseek_r1_distill_training": ("<｜end▁of▁sentence｜>",),
    "deepseekv3_training": ("<｜end▁of▁sentence｜>",),
    "diffusion_gemma_training": ("<turn|>",),
    "gemma3_training": ("<end_of_turn>",),
    "gemma_training": ("<end_of_turn>",),
    "glm4moe_training": ("<|user|>",),
    "gptoss_training": ("<|end|>", "<|return|>"),
    "idefics3_training": ("<end_of_utterance>",),
    "lfm2_training": ("<|im_end|>",),
    "lfm2_v2_training": ("<|im_end|>",),
    "llama3_training": ("<|eot_id|>",),
    "llava_next_training": ("</s>",),
    "muse_glimmer_training": ("<|eot|>",),
    "nemotron_3_5_lightning_training": ("<|im_end|>",),
    "nemotron_3_nano_training": ("<|im_end|>",),
    "nemotron_3_super_training": ("<|im_end|>",),
    "nemotron_3_ultra_training": ("<|im_end|>",),
    "phi3_5_training": ("<|end|>", "<|end|>\n<|im_end|>"),
    "phi3_training": ("<|end|>", "<|end|>\n<|im_end|>"),
    "qwen2_5_training": ("<|im_end|>",),
    "qwen2_5_vl_training": ("<|im_end|>",),
    "qwen3_5_nothink_training": ("<|im_end|>",),
    "qwen3_5_think_training": ("<|im_end|>",),
    "qwen3_6_training": ("<|im_end|>",),
    "qwen3_8_training": ("<|im_end|>",),
    "qwen3_instruct_2507_training": ("<|im_end|>",),
    "qwen3_training": ("<|im_end|>",),
    "qwen3_vl_training": ("<|im_end|>",),
    "smolvlm_training": ("<end_of_utterance>",),
}

# What ends a turn that calls tools, where that is not what ends an answer.
CALL_TERMINATORS = {
    "diffusion_gemma_training": "<tool_call|>",
    "glm4moe_training": "<|observation|>",
    "gptoss_training": "<|call|>",
}

# This template writes what stands beside a call behind the tool's result, and ends it with nothing.
UNENDED_CALLS = {"diffusion_gemma_training": {"tool_call_with_text"}}
