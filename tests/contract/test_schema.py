from __future__ import annotations

import datetime
import json
from importlib import resources

import pytest

from pytest_longctx.contract import (
    Contract,
    CurriculumSection,
    GpuSection,
    IsolationSection,
    LengthsLimits,
    PackingLimits,
    WindowLimits,
    json_schema,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


FULL = f"""\
contract: 1
name: sft-4k
description: Support chats for the 4k stage
tokenizer:
  path: ../examples/tokenizer
  chat_template: ../examples/chatml.jinja
  template_kwargs: {{}}
  fingerprint: sha256:{"0" * 64}
dataset:
  path: ../examples/data/*.jsonl
  shape: auto
  columns: {{messages: conversations}}
  id: uid
  slices: source
  sample: {{rows: 5000, seed: 0}}
supervision:
  turns: all
  marker: null
lengths:
  short_threshold: 512
  long_threshold: 4096
  limits: {{max_tokens: 32768, max_p95_tokens: 4096, min_long_share: 0.05}}
window:
  target_context_len: 4096
  min_kept_supervised_tokens: 16
  max_supervision_loss_ratio: 0.25
  limits: {{max_overflow_ratio: 0.01, max_truncated_ratio: 0.05, min_kept_supervision_ratio: 0.98}}
  warn: {{max_overflow_ratio: 0.005}}
packing:
  max_tokens_per_bin: 4096
  packer: trl_bfd
  collator: trl_padding_free
  trainer: null
  batch_size: 1
  feed: admitted
  invariants: all
  limits: {{min_utilization: 0.90, max_rows_over_bound: 1.05}}
isolation:
  model: qwen2
  attention: [eager, sdpa]
  forward: {{use_cache: false}}
  limits: {{max_logit_difference: 1.0e-5, max_loss_difference: 1.0e-4}}
curriculum:
  baseline: {{metrics: ../metrics/4k.json}}
  stages:
    - {{name: 8k, target_context_len: 8192, metrics: ../metrics/8k.json}}
  batch: {{rows_per_device: 2, gradient_accumulation: 8, devices: 4}}
  limits:
    min_long_context_gain: 0.04
    max_short_context_regression: 0.02
    max_failed_runs: 0
    max_peak_memory_gb: 10.5
    max_cost_per_supervised_token: 1.4
gpu:
  model: {{id: Qwen/Qwen2.5-0.5B, revision: {COMMIT}}}
  sequence_lengths: [128, 256, 512]
  packing_sample_lengths: [48, 96, 32, 64]
  batch_size: 1
  warmup_steps: 2
  repeat_steps: 10
  attention: sdpa
  dtype: bfloat16
  seed: 42
  memory_trend_tolerance: 0.005
  limits: {{max_peak_memory_gb: 8, min_packing_speedup: 1.1, max_step_time_ratio: 1.15}}
baseline:
  max_regression: {{"window::max_overflow_ratio": 0.002, "lengths::max_p95_tokens": 64}}
waivers:
  - {{check: "window::max_overflow_ratio", until: 2027-01-31, reason: legacy shard, ticket: DATA-12}}
"""


def test_every_section_of_the_format_is_read(load):
    contract = load(FULL)
    assert contract.packing.packer.name == "trl_bfd"
    assert contract.isolation.limits.max_logit_difference == 1e-5
    assert contract.curriculum.stages[0].name == "8k"
    assert contract.gpu.limits.max_peak_memory_gb == 8.0
    assert contract.waivers[0].until == datetime.date(2027, 1, 31)
    assert contract.waivers[0].section == "window"
    assert contract.baseline.max_regression == {
        "window::max_overflow_ratio": 0.002,
        "lengths::max_p95_tokens": 64.0,
    }


def test_the_gpu_defaults_are_the_published_workload():
    gpu = GpuSection()
    assert gpu.model.id == "Qwen/Qwen2.5-0.5B"
    assert len(gpu.model.revision) == 40
    assert (gpu.batch_size, gpu.sequence_lengths) == (1, [128, 256, 512])
    assert gpu.packing_sample_lengths == [48, 96, 32, 64]
    assert (gpu.warmup_steps, gpu.repeat_steps, gpu.attention) == (2, 10, "sdpa")
    assert (gpu.dtype, gpu.seed, gpu.memory_trend_tolerance) == ("bfloat16", 42, 0.005)


def test_other_defaults():
    assert IsolationSection().attention == ["eager", "sdpa"]
    assert CurriculumSection.model_fields["token_budget_tolerance"].default == 0.05


@pytest.mark.parametrize("limits", [LengthsLimits, WindowLimits, PackingLimits])
def test_limits_are_optional(limits):
    assert all(value is None for _, value in limits())


def test_names_may_carry_a_config(loads):
    packing = loads(
        "packing: {max_tokens_per_bin: 8, packer: {name: trl_bfd, config: {a: 1}}, trainer: transformers}"
    ).packing
    assert (packing.packer.name, packing.packer.config) == ("trl_bfd", {"a": 1})
    assert (packing.collator.name, packing.collator.config) == ("block_mask", {})
    assert packing.trainer.name == "transformers"


@pytest.mark.parametrize(
    ("text", "mode"),
    [("", "admitted"), (", trainer: trl_sft", "all"), (", trainer: trl_sft, feed: admitted", "admitted")],
)
def test_what_is_fed_by_default(loads, text, mode):
    assert loads(f"packing: {{max_tokens_per_bin: 8{text}}}").packing.feed_mode == mode


@pytest.mark.parametrize(
    ("invariants", "wanted"),
    [
        ("all", {"capacity", "token_order"}),
        ("[capacity]", {"capacity"}),
        ("{except: [capacity], reason: rows of one sample}", {"token_order"}),
    ],
)
def test_which_invariants_are_wanted(loads, invariants, wanted):
    packing = loads(f"packing: {{max_tokens_per_bin: 8, invariants: {invariants}}}").packing
    assert {name for name in ("capacity", "token_order") if packing.wants(name)} == wanted


def test_the_window_is_the_default_capacity(loads):
    assert loads("window: {target_context_len: 8}\npacking: {}").max_tokens_per_bin == 8
    assert loads("window: {target_context_len: 8}\npacking: {max_tokens_per_bin: 9}").max_tokens_per_bin == 9


def described(node):
    """All models' fields of a JSON Schema."""
    for model in [node, *node["$defs"].values()]:
        yield from model.get("properties", {}).items()


def test_every_field_says_what_it_is():
    assert [
        name for name, field in described(json_schema()) if not field.keys() & {"description", "$ref"}
    ] == []


def normal(node):
    """A JSON Schema without what some releases of pydantic add and others imply."""
    if isinstance(node, list):
        return [normal(each) for each in node]
    if not isinstance(node, dict):
        return node
    implied = {"enum"} if "const" in node else set()
    implied |= {"additionalProperties"} if node.get("additionalProperties") is True else set()
    return {key: normal(value) for key, value in node.items() if key not in implied}


def test_the_shipped_schema_is_current():
    shipped = resources.files("pytest_longctx.contract").joinpath("schema.json").read_text("utf-8")
    assert normal(json.loads(shipped)) == normal(json_schema()), (
        "run: longctx schema > pytest_longctx/contract/schema.json"
    )


def test_a_contract_cannot_be_changed(load):
    contract = load(FULL)
    with pytest.raises(ValueError, match="frozen"):
        contract.name = "other"


def test_models_may_be_made_without_a_file():
    data = {"contract": 1, "tokenizer": {"path": "t"}, "dataset": {"path": "d"}}
    assert Contract.model_validate(data).line("tokenizer") == 1
    with pytest.raises(ValueError, match=r"packing.max_tokens_per_bin: missing"):
        Contract.model_validate({**data, "packing": {}})
