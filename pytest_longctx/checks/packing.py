"""Section packing: what the packer and collator, or the trainer, deliver."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_longctx.checks.check import (
    SHOWN,
    Check,
    both_limits,
    limit_key,
    limit_names,
    limit_verdict,
    offence_verdict,
)
from pytest_longctx.packing.names import TRAINERS
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.packing.comparison import Comparison
    from pytest_longctx.verdict import Number, Unit

INVARIANTS: dict[str, tuple[str, str]] = {
    "capacity": ("row over capacity", "the packer must not fill a row beyond max_tokens_per_bin"),
    "sample_conservation": (
        "sample not delivered exactly once as planned",
        "lost and repeated samples bias training: compare the packer's output with its input",
    ),
    "token_order": ("tokens of a sample in another order", "the packer must not reorder tokens"),
    "labels_preserved": ("label is not the sample's own", "labels must travel with their tokens, unshifted"),
    "position_ids": ("position does not restart or count", "positions restart at 0 with each segment"),
    "boundary_labels": (
        "first token of a segment is a target",
        "set its label to -100, or it is predicted from the sample before it",
    ),
    "cumulative_boundaries": (
        "cu_seq_lens is not the segments' borders",
        "it runs from 0 over every border to T",
    ),
    "sequence_indices": ("seq_idx is not the segment's number", "number the segments of a row 0, 1, 2, …"),
    "varlen_fields": (
        "varlen arguments incomplete or of the wrong type",
        "pass cu_seq_lens_q/k as int32 and max_length_q/k as plain ints, or none of the four",
    ),
    "aligned_fields": ("per-token field of another length", "pad every per-token tensor alike"),
    "mask_agrees": ("segment named otherwise", "all dialects of a batch must name the same segments"),
    "padding_segment": (
        "padding inside a segment or with a label",
        "padding is no segment and has label -100",
    ),
    "supervision_per_row": (
        "row without a target",
        "such a row costs a step and trains nothing: reject its samples before packing",
    ),
    "orphan_fragments": (
        "part of an answer without its prompt",
        "do not split samples across rows; reject or truncate them by the window policy",
    ),
    "target_count": (
        "row with another number of targets",
        "labels were masked, unmasked or cut at borders",
    ),
    "effective_window": ("another limit in force", "set max_length to the contract's window"),
    "index_range": ("index out of range", "shorten the row, or use a vocabulary that holds the ids"),
}
# By the shape of the rows: the key of SFTConfig that masks them, and what is trained without it.
_CHAT = ("assistant_only_loss", "SFTTrainer trains every token of a chat by default")
_MASKS = {
    "prompt_completion": ("completion_only_loss", "SFTTrainer trains prompts too, as its config says"),
    "tokenized": ("completion_only_loss", "SFTTrainer does not look at a completion_mask by default"),
}


def checks(contract: Contract) -> list[Check]:
    """The invariants that the contract asks for, and the limits that the section sets."""
    section = contract.packing
    if section is None:
        return []
    names = [name for name in INVARIANTS if section.wants(name)]
    # A plain transformers Trainer has no limit of its own.
    without_limit = section.trainer is None or section.trainer.name == "transformers"
    if without_limit and "effective_window" in names:
        names.remove("effective_window")
    key = ("packing", "invariants") if "invariants" in section.model_fields_set else ("packing",)
    found = [
        Check(
            "packing",
            name,
            key,
            "audit",
            effective_window if name == "effective_window" else partial(invariant, name),
        )
        for name in names
    ]
    for name in limit_names(section):
        where = limit_key("packing", section, name)
        found.append(Check("packing", name, where, "audit", partial(limit, name), name.startswith("min_")))
    return found


def invariant(name: str, evidence: Evidence) -> Verdict:
    """One invariant over everything that was delivered."""
    audit = evidence.audit
    if name in audit.unseen:
        return rows_unseen(name, evidence)
    what, advice = INVARIANTS[name]
    verdict = offence_verdict(name, audit.counts[name], audit.witnesses.get(name, [])[:SHOWN], what, advice)
    if verdict.outcome == "passed":
        return verdict
    rows = "packed rows not seen" if audit.rows_hidden else f"{audit.rows:,} rows"
    context = [f"delivered by {evidence.pipeline.maker}: {rows}, {audit.batches:,} batch rows"]
    if name == "supervision_per_row":
        context.append(f"they hold {audit.idle_tokens:,} of {audit.row_tokens:,} tokens")
    if name == "target_count":
        context.append(f"targets {audit.targets:,}, expected {audit.expected_targets:,}")
    context += _first_of_all(evidence)
    if name in ("labels_preserved", "target_count") and (why := _unmasked(evidence)):
        advice = f"{advice}; {why}"
    return replace(verdict, context=tuple(context), advice=advice)


def _first_of_all(evidence: Evidence) -> Iterator[str]:
    """What lets many checks fail at once, and is no fault of the packer."""
    if evidence.audit.other_texts:
        yield (
            f"{evidence.audit.other_texts:,} samples came with other tokens than the contract gives them, or "
            "without some: compare template, system prompt, tools and preprocessing first"
        )
    measured, section = evidence.measured, evidence.contract.packing
    trainer = section.trainer if section else None
    if measured.population is not None and trainer is not None and trainer.name not in TRAINERS:
        yield (
            f"only {measured.rows:,} of {measured.population:,} rows were drawn (dataset.sample): the "
            "trainer must deliver these and no other"
        )


def _unmasked(evidence: Evidence) -> str:
    """What to set where the trainer is TRL's and its config leaves tokens unmasked, "" where it does not."""
    section = evidence.contract.packing
    trainer = section.trainer if section else None
    if trainer is None or trainer.name != "trl_sft" or (shape := evidence.dataset.shape) == "text":
        return ""
    key, why = _MASKS.get(shape, _CHAT)
    masks = trainer.config.get(key)
    if masks or (masks is None and shape == "prompt_completion"):
        return ""
    meant = "" if shape == "tokenized" else ", or supervision.turns: every_token if that is meant"
    return f"{why}: set {key}: true in its config{meant}"


def effective_window(evidence: Evidence) -> Verdict:
    """The trainer's own limit is the contract's window; it needs none where no row is longer."""
    from pytest_longctx.packing.invariants import effective_window as offences

    wanted, found = evidence.contract.max_tokens_per_bin or 0, evidence.pipeline.window()
    if found is None and max(evidence.audit.row_lengths) <= wanted:
        # TRL demands it where it does not pack, but flattens batches.
        return Verdict(
            "passed", f"effective_window: no limit, and no row over {wanted:,}", None, wanted, "tokens"
        )
    if not any(offences(found, wanted)):
        return Verdict("passed", f"effective_window {found:,}", found, wanted, "tokens")
    said = "no limit" if found is None else f"{found:,}"
    return Verdict(
        "failed",
        f"effective_window: {evidence.pipeline.maker} has {said}, the contract {wanted:,}",
        found,
        wanted,
        "tokens",
        advice=INVARIANTS["effective_window"][1],
    )


def rows_unseen(name: str, evidence: Evidence) -> Verdict:
    """Failed: a number of packed rows, where a trainer shows batches in which they are run together."""
    maker, size = evidence.pipeline.maker, evidence.pipeline.expected.batch_size
    batches = f"{evidence.audit.flattened:,} batch{'' if evidence.audit.flattened == 1 else 'es'}"
    return Verdict(
        "failed",
        f"{name}: packed rows cannot be seen in flattened batches",
        context=(
            f"{maker} shows no packed rows, and {batches} of one row: each may hold up to {size:,} "
            "packed rows (packing.batch_size), which cannot be told apart",
        ),
        advice="let the trainer deliver its packed rows too: Delivery(rows=…, batch=…)",
    )


def limit(name: str, evidence: Evidence) -> Verdict:
    """One limit of the section."""
    section, audit = evidence.contract.packing, evidence.audit
    if audit.rows_hidden and name != "max_padding_ratio":
        return rows_unseen(name, evidence)
    measured, unit, note = _measured(name, evidence)
    capacity = evidence.pipeline.expected.capacity
    context: tuple[str, ...] = (
        f"{audit.rows:,} rows of at most {capacity:,} tokens, {audit.row_tokens:,} in all",
    )
    if name != "max_padding_ratio":
        context = (*context, *_statements(audit.comparison))
    verdict = limit_verdict(
        name,
        measured,
        unit,
        both_limits(section, name),
        note,
        context=context,
        advice="pack larger map batches, sort longest first, or use the reference packer ffd",
    )
    return verdict if verdict.outcome != "passed" else _told(verdict, context)


def _statements(comparison: Comparison | None) -> Iterator[str]:
    """What can be said of the packer: which reference it is, and how far it is from the fewest rows."""
    if comparison is None:
        yield "not compared with the reference packers: samples or rows did not come as planned"
        return
    yield f"this packer {'is ' * bool(comparison.exactly)}{comparison.packer}"
    yield f"{comparison.certificate}: whole samples need {comparison.fewest:,} rows at least"


def _told(verdict: Verdict, context: tuple[str, ...]) -> Verdict:
    """A verdict that passed with what is said beside the number; in the headline as far as it fits."""
    headline = verdict.headline
    for line in context[1:]:
        if len(longer := f"{headline}; {line.partition(':')[0]}") < 80:
            headline = longer
    return replace(verdict, headline=headline, context=context)


def _measured(name: str, evidence: Evidence) -> tuple[Number, Unit, str]:
    audit, capacity = evidence.audit, evidence.pipeline.expected.capacity
    bound = math.ceil(audit.row_tokens / capacity)
    if name == "min_utilization":
        return audit.row_tokens / (audit.rows * capacity), "ratio", f"{audit.rows:,} rows"
    if name == "max_rows_over_bound":
        return audit.rows / bound, "factor", f"{audit.rows:,} rows, at least {bound:,}"
    if name == "max_padding_ratio":
        padding = audit.width_tokens - audit.piece_tokens
        return padding / audit.width_tokens, "ratio", f"{padding:,} of {audit.width_tokens:,} tokens"
    optimum = _fewest_rows(evidence)
    return audit.rows - optimum, "rows", f"{audit.rows:,} rows, at least {optimum:,}"


def _fewest_rows(evidence: Evidence) -> int:
    """The Martello–Toth bound over the samples that should be delivered."""
    from pytest_longctx.packing.bounds import minimum_rows

    lengths = evidence.pipeline.expected.lengths
    return minimum_rows(lengths[lengths > 0], evidence.pipeline.expected.capacity)
