"""Plain functions over plain values: dicts, lists and numbers in and out, on the same core as the contract.

Every function raises ValueError for input that it cannot judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.conformance import check_long_context_framework_conformance
from pytest_longctx.curriculum import evaluate_stage
from pytest_longctx.lengths import summarize
from pytest_longctx.packing.reference import first_fit_decreasing
from pytest_longctx.window import DECISIONS, WindowPolicy, WindowSamples, plan_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "audit_context_fit",
    "build_boundary_isolated_packing",
    "check_long_context_framework_conformance",
    "evaluate_length_curriculum_stage",
    "pack_sample_lengths",
    "summarize_length_distribution",
]


def summarize_length_distribution(
    lengths: Sequence[int], short_threshold: int, long_threshold: int
) -> dict[str, Any]:
    """Return `count`, `buckets` by `short`, `medium`, `long`, and nearest-rank `p50_tokens`, `p95_tokens`."""
    checked = [_integer(length, f"lengths[{index}]", 0) for index, length in enumerate(lengths)]
    short = _integer(short_threshold, "short_threshold", 0)
    summary = summarize(checked, short, _integer(long_threshold, "long_threshold", 0))
    return {
        "count": summary.count,
        "buckets": summary.buckets,
        "p50_tokens": summary.p50,
        "p95_tokens": summary.p95,
    }


def audit_context_fit(
    samples: Sequence[Mapping[str, Any]],
    target_context_len: int,
    template_tokens: int,
    min_kept_supervised_tokens: int = 1,
    max_supervision_loss_ratio: float = 0.0,
) -> dict[str, Any]:
    """Decide for samples of `name`, `prompt_tokens` and `supervised_tokens` whether they fit the window.

    Returns `records` (`name`, `total_tokens`, `kept_supervised_tokens`, `supervision_loss_ratio`, `decision`)
    and the names by decision. A sample that overflows keeps 0 tokens but its loss ratio. A prompt that does
    not fit overflows under every policy.
    """
    window = _integer(target_context_len, "target_context_len", 1)
    template = _integer(template_tokens, "template_tokens", 0)
    ratio = _number(max_supervision_loss_ratio, "max_supervision_loss_ratio")
    minimum = _integer(min_kept_supervised_tokens, "min_kept_supervised_tokens", 0)
    policy = WindowPolicy(minimum, ratio)
    names = [_text(sample, "name", f"samples[{index}]") for index, sample in enumerate(samples)]
    prompt = _column(samples, "prompt_tokens", 0)
    columns = WindowSamples.from_lengths(template, prompt, _column(samples, "supervised_tokens", 1))
    plan = plan_window(columns, window, policy)
    decisions = [DECISIONS[code] for code in plan.decision.tolist()]
    facts = zip(names, columns.total.tolist(), plan.kept.tolist(), plan.loss.tolist(), decisions, strict=True)
    keys = ("name", "total_tokens", "kept_supervised_tokens", "supervision_loss_ratio", "decision")
    result: dict[str, Any] = {"records": [dict(zip(keys, fact, strict=True)) for fact in facts]}
    for key, wanted in zip(("fit_names", "truncated_names", "overflow_names"), DECISIONS, strict=True):
        result[key] = [name for name, decision in zip(names, decisions, strict=True) if decision == wanted]
    return result


def pack_sample_lengths(lengths: Sequence[int], max_tokens_per_bin: int) -> dict[str, Any]:
    """Pack by first-fit decreasing. Returns `bins`, lists of lengths in opening order, and `utilization`."""
    checked = [_integer(length, f"lengths[{index}]", 1) for index, length in enumerate(lengths)]
    packing = first_fit_decreasing(checked, _integer(max_tokens_per_bin, "max_tokens_per_bin", 1))
    offsets, order = packing.rows()
    bins = np.split(np.asarray(checked, np.int64)[order], offsets[1:-1]) if packing.count else []
    return {"bins": [members.tolist() for members in bins], "utilization": packing.utilization}


def build_boundary_isolated_packing(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Pack samples of `input_ids` and `labels` into one row, in order, each isolated from the others.

    Returns `input_ids`, `labels`, `segment_ids` and `position_ids` (from 0 in each segment), T entries each,
    and `attention_allowed`, T x T booleans: token i sees token j only if both are of one segment and j ≤ i.
    Labels are kept as they are.
    """
    if not samples:
        raise ValueError("there is no sample to pack")
    ids = [_tokens(sample, "input_ids", index) for index, sample in enumerate(samples)]
    labels = [_tokens(sample, "labels", index) for index, sample in enumerate(samples)]
    for index, (tokens, targets) in enumerate(zip(ids, labels, strict=True)):
        if not tokens:
            raise ValueError(f"samples[{index}] has no tokens")
        if len(tokens) != len(targets):
            raise ValueError(
                f"samples[{index}]: {len(tokens)} input_ids and {len(targets)} labels, expected as many"
            )
    lengths = np.array([len(tokens) for tokens in ids])
    segments = np.repeat(np.arange(lengths.size), lengths)
    places = np.arange(segments.size)
    allowed = (segments[:, None] == segments) & (places <= places[:, None])
    return {
        "input_ids": _joined(ids),
        "labels": _joined(labels),
        "segment_ids": segments.tolist(),
        "position_ids": (places - np.repeat(np.cumsum(lengths) - lengths, lengths)).tolist(),
        "attention_allowed": allowed.tolist(),
    }


def evaluate_length_curriculum_stage(
    baseline: Mapping[str, Any], candidate: Mapping[str, Any], limits: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `decision` (`advance` or `hold`), `failed_gates` by name, and the `evidence` behind them."""
    result = evaluate_stage(baseline, candidate, limits)
    budget, gain, regression = result.gates[:3]
    return {
        "decision": result.decision,
        "failed_gates": result.failed_gates,
        "evidence": {
            "token_budget_matches": budget.passed,
            "long_context_gain": gain.measured,
            "short_context_regression": regression.measured,
        },
    }


def _integer(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer, is {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, is {value}")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, is {value!r}")
    return float(value)


def _field(sample: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in sample:
        raise ValueError(f"{where}: {key} is missing")
    return sample[key]


def _text(sample: Mapping[str, Any], key: str, where: str) -> str:
    value = _field(sample, key, where)
    if not isinstance(value, str):
        raise ValueError(f"{where}.{key} must be text, is {value!r}")
    return value


def _column(samples: Sequence[Mapping[str, Any]], key: str, least: int) -> list[int]:
    places = [(f"samples[{index}]", sample) for index, sample in enumerate(samples)]
    return [_integer(_field(sample, key, where), f"{where}.{key}", least) for where, sample in places]


def _tokens(sample: Mapping[str, Any], key: str, index: int) -> list[int]:
    where = f"samples[{index}]"
    values = _field(sample, key, where)
    if not isinstance(values, list | tuple):
        raise ValueError(f"{where}.{key} must be a list, is {type(values).__name__}")
    least = 0 if key == "input_ids" else -100
    return [_integer(value, f"{where}.{key}[{place}]", least) for place, value in enumerate(values)]


def _joined(parts: Iterable[list[int]]) -> list[int]:
    return [value for part in parts for value in part]
