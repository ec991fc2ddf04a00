"""The stages of a contract: their metrics, and what this contract's data gives at each window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.curriculum import Stage, check_scale
from pytest_longctx.errors import LongctxError
from pytest_longctx.lengths import LengthHistogram
from pytest_longctx.metrics import read_metrics, read_trainer_metrics
from pytest_longctx.packing.reference import first_fit_decreasing
from pytest_longctx.tokens.sample import IGNORED
from pytest_longctx.window import WindowPolicy, plan_window

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.contract.runs import (
        CurriculumBaseline,
        CurriculumBatch,
        CurriculumSection,
        CurriculumStage,
    )
    from pytest_longctx.contract.stages import PackingSection
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.window import Plan


def read_stages(contract: Contract) -> list[Stage]:
    """The baseline and the stages with their metrics, in order.

    Raises:
        MetricsError: a file cannot be read, a key is missing or is nothing that a run has, the window is
            another one, or scores are on two scales.
    """
    section = contract.curriculum
    if section is None:
        raise LongctxError("the contract has no section curriculum")
    stages = [_read(contract, stage, baseline=False) for stage in section.stages]
    found = [_read(contract, section.baseline, baseline=True), *stages]
    check_scale(found)
    return found


def _read(contract: Contract, terms: CurriculumBaseline | CurriculumStage, *, baseline: bool) -> Stage:
    window, metrics = terms.target_context_len, terms.metrics
    if isinstance(metrics, str):
        values = read_metrics(contract.resolve(metrics), window, baseline)
    else:
        state, evaluation = contract.resolve(metrics.trainer_state), contract.resolve(metrics.eval)
        values = read_trainer_metrics(state, evaluation, metrics.map, window, baseline)
    return Stage(terms.name or "baseline", values.pop("target_context_len", window), values)


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


@dataclass(frozen=True, slots=True)
class Budget:
    """Supervised tokens of an optimizer step, and in words the rows that they were counted in."""

    tokens: float
    counted: str


def measured_budget(evidence: Evidence, place: int) -> Budget | None:
    """Supervised tokens per optimizer step of a stage: targets per row times the rows of a step.

    At the contract's own window these are the targets and rows that its packer or trainer delivered. At
    another window they are those of the samples that the window policy admits there: one a row where the
    contract does not pack, else in the rows of the reference packer. None where the trainer shows no rows.
    """
    section = evidence.contract.curriculum
    batch = batch_of(section, place) if section else None
    if section is None or batch is None:
        raise LongctxError("curriculum.batch is missing")
    window = section.stages[place].target_context_len
    if window != _own_window(evidence.contract):
        targets, rows, made = _planned(evidence, window)
    elif evidence.audit.rows_hidden:
        return None
    else:
        targets, rows = evidence.audit.targets, evidence.audit.rows
        made = f"that {evidence.pipeline.maker} delivered"
    rows_per_step = batch.rows_per_device * batch.gradient_accumulation * batch.devices
    counted = f"{targets:,} targets in {rows:,} rows {made}; {rows_per_step:,} rows a step"
    return Budget(targets / max(1, rows) * rows_per_step, counted)


def _own_window(contract: Contract) -> int | None:
    return contract.window.target_context_len if contract.window else contract.max_tokens_per_bin


def _planned(evidence: Evidence, window: int) -> tuple[int, int, str]:
    """Targets and rows at a window other than the contract's, and how the rows are made."""
    plan = _plan(evidence, window)
    targets, lengths = _targets(evidence, plan), plan.length[plan.length > 0]
    if not _packs(evidence.contract.packing):
        return targets, len(lengths), f"of one sample each at a window of {window:,}"
    capacity = _capacity(evidence.contract, window)
    rows = first_fit_decreasing(lengths, capacity).count
    made = f"of at most {capacity:,} tokens, as first-fit decreasing would pack a window of {window:,}"
    return targets, rows, made


def _targets(evidence: Evidence, plan: Plan) -> int:
    """Kept labels that enter the loss: a sample's own first token is never predicted."""
    samples = evidence.measured.samples
    if samples is None:
        raise LongctxError("packing needs token ids, and rows of shape lengths have none")
    first = samples.labels[samples.offsets[:-1][plan.length > 0]]
    return int(plan.kept.sum()) - int(np.count_nonzero(first != IGNORED))


def _packs(terms: PackingSection | None) -> bool:
    """Whether a row may hold several samples; TRL's trainer goes by its own config."""
    if terms is None:
        raise LongctxError("the contract has no section packing")
    if terms.trainer is not None and terms.trainer.name == "trl_sft":
        return bool(terms.trainer.config.get("packing"))
    return terms.packer.name != "none"


def _capacity(contract: Contract, window: int) -> int:
    """Tokens of a row at another window: rows larger than the contract's window stay as large."""
    capacity = contract.max_tokens_per_bin
    return window if capacity is None or capacity == _own_window(contract) else max(window, capacity)


def length_mix(evidence: Evidence, window: int | None) -> dict[str, float] | None:
    """Shares of short, medium and long samples among those a window admits.

    None without a window, and where it admits no sample.
    """
    terms = evidence.contract.lengths
    if terms is None:
        raise LongctxError("the contract has no section lengths")
    if window is None:
        return None
    plan = _plan(evidence, window)
    lengths = LengthHistogram.of(np.asarray(plan.length[plan.length > 0]))
    if not lengths.count:
        return None
    short, medium = lengths.up_to(terms.short_threshold), lengths.up_to(terms.long_threshold)
    return {
        "short": short / lengths.count,
        "medium": (medium - short) / lengths.count,
        "long": (lengths.count - medium) / lengths.count,
    }
