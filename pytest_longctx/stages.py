"""The stages of a contract: their metrics, and what this contract's data gives at each window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.curriculum import Stage
from pytest_longctx.errors import LongctxError
from pytest_longctx.lengths import LengthHistogram
from pytest_longctx.metrics import read_metrics, read_trainer_metrics
from pytest_longctx.packing.reference import first_fit_decreasing
from pytest_longctx.window import WindowPolicy, plan_window

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.contract.runs import (
        CurriculumBaseline,
        CurriculumBatch,
        CurriculumSection,
        CurriculumStage,
    )
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.window import Plan


def read_stages(contract: Contract) -> list[Stage]:
    """The baseline and the stages with their metrics, in order.

    Raises:
        MetricsError: a file cannot be read, a key is missing or no number, or the window is another one.
    """
    section = contract.curriculum
    if section is None:
        raise LongctxError("the contract has no section curriculum")
    stages = [_read(contract, stage, baseline=False) for stage in section.stages]
    return [_read(contract, section.baseline, baseline=True), *stages]


def _read(contract: Contract, terms: CurriculumBaseline | CurriculumStage, *, baseline: bool) -> Stage:
    window, metrics = terms.target_context_len, terms.metrics
    if isinstance(metrics, str):
        values = read_metrics(contract.resolve(metrics), window, baseline)
    else:
        state, evaluation = contract.resolve(metrics.trainer_state), contract.resolve(metrics.eval)
        values = read_trainer_metrics(state, evaluation, metrics.map, window, baseline)
    return Stage(terms.name or "baseline", window, values)


def _plan(evidence: Evidence, window: int) -> Plan:
    terms = evidence.contract.window
    policy = (
        WindowPolicy(terms.min_kept_supervised_tokens, terms.max_supervision_loss_ratio)
        if terms
        else WindowPolicy()
    )
    return plan_window(evidence.columns, window, policy)


def batch_of(section: CurriculumSection, place: int) -> CurriculumBatch | None:
    """What an optimizer step of a stage holds."""
    return section.stages[place].batch or section.batch


def measured_budget(evidence: Evidence, place: int) -> float | None:
    """Supervised tokens per optimizer step of a stage: targets per packed row times the rows of a step.

    At the contract's own window these are the targets and rows that its packer or trainer delivered; at
    another window those of the reference packer over the samples that the window policy admits there. None
    where the trainer shows no packed rows.
    """
    section = evidence.contract.curriculum
    batch = batch_of(section, place) if section else None
    if section is None or batch is None:
        raise LongctxError("curriculum.batch is missing")
    window = section.stages[place].target_context_len
    rows_per_step = batch.rows_per_device * batch.gradient_accumulation * batch.devices
    if window == evidence.contract.max_tokens_per_bin:
        audit = evidence.audit
        return None if audit.rows_hidden else audit.targets / audit.rows * rows_per_step
    plan = _plan(evidence, window)
    rows = first_fit_decreasing(plan.length[plan.length > 0], window).count
    return int(plan.kept.sum()) / max(1, rows) * rows_per_step


def length_mix(evidence: Evidence, window: int | None) -> dict[str, float] | None:
    """Shares of short, medium and long samples among those a window admits; None without a window."""
    terms = evidence.contract.lengths
    if window is None or terms is None:
        return None
    plan = _plan(evidence, window)
    lengths = LengthHistogram.of(np.asarray(plan.length[plan.length > 0]))
    count = max(1, lengths.count)
    short, medium = lengths.up_to(terms.short_threshold), lengths.up_to(terms.long_threshold)
    return {
        "short": short / count,
        "medium": (medium - short) / count,
        "long": (lengths.count - medium) / count,
    }
