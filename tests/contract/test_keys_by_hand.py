"""Least and greatest values of keys, and what stands for keys that are not set."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from pytest_longctx.contract.runs import (
    BaselineSection,
    CurriculumBatch,
    CurriculumLimits,
    CurriculumSection,
    GpuSection,
    IsolationSection,
    RandomModel,
)
from pytest_longctx.contract.section import Amount, Count, Name, Positive, Ratio, Text, Tokens, Window
from pytest_longctx.contract.sources import DatasetSection, SampleSection, SupervisionSection
from pytest_longctx.contract.stages import (
    InvariantsExcept,
    LengthsSection,
    PackingLimits,
    PackingSection,
    WindowSection,
)

LENGTHS = "lengths: {short_threshold: 1, long_threshold: 2, "


def fault(section, **given):
    """The place and kind of the one fault, or None."""
    try:
        section(**given)
    except ValidationError as error:
        (detail,) = error.errors()
        return detail["loc"], detail["type"]
    return None


@pytest.mark.parametrize(
    ("kind", "sound", "refused"),
    [
        (Ratio, [0.0, 0.5, 1.0], [-0.01, 1.01]),
        (Count, [0, 1], [-1]),
        (Positive, [1, 2], [0]),
        (Amount, [0.001, 1.0, 1e9], [0.0, -0.5]),
        (Tokens, [0, 1, 2**31 - 1], [-1, 2**31]),
        (Window, [1, 2, 2**31 - 1], [0, 2**31]),
        (Name, ["a", "k" * 80, "a_1"], ["k" * 81, "", "A", "a b"]),
        (Text, ["a", "k" * 4096, " a "], ["k" * 4097, "", " "]),
    ],
)
def test_the_first_and_the_last_value_of_a_kind(kind, sound, refused):
    adapter = TypeAdapter(kind)
    assert [adapter.validate_python(value) for value in sound] == sound
    for value in refused:
        with pytest.raises(ValidationError):
            adapter.validate_python(value)


@pytest.mark.parametrize("key", ["short_threshold", "long_threshold"])
def test_thresholds_have_31_bits(key):
    given = {"short_threshold": 0, "long_threshold": 2**31 - 1, key: 2**31 - 1}
    assert fault(LengthsSection, **given) is None
    assert fault(LengthsSection, **{**given, key: 2**31}) == ((key,), "less_than_equal")
    assert fault(LengthsSection, **{**given, key: -1}) == ((key,), "greater_than_equal")


def test_tokens_beyond_31_bits_are_told(below):
    assert below("lengths: {short_threshold: 1, long_threshold: 2147483648}") == [
        "4:47: lengths.long_threshold: found 2147483648, expected at most 2147483647"
    ]


def test_the_least_and_the_greatest_share_may_be_one_number(loads):
    limits = loads(LENGTHS + "limits: {min_long_share: 0.3, max_long_share: 0.3}}").lengths.limits
    assert (limits.min_long_share, limits.max_long_share) == (0.3, 0.3)


@pytest.mark.parametrize(("least", "greatest"), [(0.2, 0.3), (0.0, 1.0)])
def test_the_least_share_is_below_the_greatest(loads, least, greatest):
    text = f"{{min_short_share: {least}, max_short_share: {greatest}}}"
    section = loads(f"{LENGTHS}limits: {text}, warn: {text}}}").lengths
    assert (section.limits.min_short_share, section.warn.max_short_share) == (least, greatest)


@pytest.mark.parametrize(("short", "long"), [(0.5, 0.75), (0.75, 0.75), (0.01, 1.0)])
def test_shares_of_more_than_all_samples(below, short, long):
    text = f"{{min_short_share: {short}, min_long_share: {long}}}"
    # `{` of the limits stands in column 58, the value 18 columns behind it.
    assert below(f"{LENGTHS}limits: {text}}}") == [
        f"4:76: lengths.limits.min_short_share: {short} and min_long_share {long} add up to more than 1"
    ]


@pytest.mark.parametrize(("short", "long"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.5, 0.5)])
def test_shares_of_all_samples(loads, short, long):
    limits = loads(f"{LENGTHS}limits: {{min_short_share: {short}, min_long_share: {long}}}}}").lengths.limits
    assert (limits.min_short_share, limits.min_long_share) == (short, long)


@pytest.mark.parametrize(
    ("key", "least", "below_it"),
    [("max_rows_over_optimal", 0, -1), ("max_rows_over_bound", 1.0, 0.99), ("min_utilization", 0.0, -0.01)],
)
def test_the_least_limits_of_packing(key, least, below_it):
    assert fault(PackingLimits, **{key: least}) is None
    assert fault(PackingLimits, **{key: below_it}) == ((key,), "greater_than_equal")


def test_some_invariant_is_exempt_from_all(below):
    assert fault(InvariantsExcept, **{"except": ["capacity"], "reason": "known"}) is None
    assert below("packing: {max_tokens_per_bin: 8, invariants: {except: [], reason: known}}") == [
        "4:55: packing.invariants.except: found a list, expected at least 1 in the list"
    ]


def test_one_implementation_of_attention_is_enough(below):
    assert IsolationSection(attention=["eager"]).attention == ["eager"]
    assert below("isolation: {attention: []}") == [
        "4:24: isolation.attention: found a list, expected at least 1 in the list"
    ]


def test_what_is_not_set_in_a_section():
    assert PackingSection().batch_size == 1
    window = WindowSection(target_context_len=8)
    assert (window.min_kept_supervised_tokens, window.max_supervision_loss_ratio) == (1, 0.0)
    isolation = IsolationSection()
    assert (isolation.model, isolation.attention, isolation.seed) == ("qwen2", ["eager", "sdpa"], 42)
    assert (isolation.limits.max_logit_difference, isolation.limits.max_loss_difference) == (1e-5, 1e-4)
    assert not isolation.weights
    assert RandomModel(architecture="qwen2", size="tiny").seed == 42
    gpu = GpuSection()
    assert (gpu.packing_sample_lengths, gpu.warmup_steps, gpu.batch_size) == ([48, 96, 32, 64], 2, 1)
    assert gpu.memory_trend_tolerance == 0.005
    assert CurriculumSection.model_fields["token_budget_tolerance"].default == 0.05


def test_what_is_not_set_in_a_batch_or_a_draw():
    batch = CurriculumBatch()
    assert (batch.rows_per_device, batch.gradient_accumulation, batch.devices) == (1, 1, 1)
    assert SampleSection(rows=1).seed == 0
    assert not DatasetSection(path="a.jsonl").exhaustive


def test_a_list_of_one_is_enough():
    assert DatasetSection(path=["a.jsonl"]).path == ["a.jsonl"]
    assert SupervisionSection(marker=["<a>"]).marker == ["<a>"]
    assert PackingSection(invariants=["capacity"]).invariants == ["capacity"]
    assert GpuSection(sequence_lengths=[2], packing_sample_lengths=[2, 2]).sequence_lengths == [2]


def test_the_least_of_gates_and_baselines():
    gates = {
        "min_long_context_gain": -1.0,
        "max_short_context_regression": 0.0,
        "max_failed_runs": 0,
        "max_peak_memory_gb": 0.5,
        "max_cost_per_supervised_token": 1e-9,
    }
    assert fault(CurriculumLimits, **gates) is None
    key = "max_short_context_regression"
    assert fault(CurriculumLimits, **{**gates, key: -0.5}) == ((key,), "greater_than_equal")
    run = {"metrics": "m.json", "target_context_len": 8, "name": "a"}
    curriculum = {"baseline": {"metrics": "b.json"}, "limits": gates}
    assert fault(CurriculumSection, **curriculum, stages=[run]) is None
    assert fault(CurriculumSection, **curriculum, stages=[]) == (("stages",), "too_short")
    assert fault(BaselineSection, max_regression={"window::policy": 0.0}) is None
    assert fault(BaselineSection, max_regression={}) == (("max_regression",), "too_short")
    found = fault(BaselineSection, max_regression={"window::policy": -0.5})
    assert found == (("max_regression", "window::policy"), "greater_than_equal")


@pytest.mark.parametrize("letters", [79, 80, 81])
def test_a_check_of_a_baseline_is_shown_in_eighty_letters(below, letters):
    (problem,) = below(f"baseline: {{max_regression: {{{'k' * letters}: 0.1}}}}")
    assert problem.endswith(
        f": found text '{'k' * min(letters, 80)}', expected section::check, as in the node id"
    )
