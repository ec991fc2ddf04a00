"""What deserves a look, in a sentence each; row text never stands in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.verdict import shown
from pytest_longctx.window import OVERFLOW, TRUNCATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_longctx.checks import Check
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.init.proposal import Proposal
    from pytest_longctx.tokens.build import Measured
    from pytest_longctx.verdict import Verdict

_FEW = 100


def training_variant(name: str) -> str:
    """The given template supervises nothing."""
    return (
        "the template has no {% generation %} block, so nothing would be supervised; the contract names "
        f"{name}, TRL's training variant of it: train with that one"
    )


def nothing_left(measured: Measured) -> str:
    """Why there is no sample at all."""
    kinds = ", ".join(f"{count:,} × {kind}" for kind, count in measured.rejected.most_common())
    first = (
        f"; the first: {measured.problems[0].id}: {measured.problems[0].message}" if measured.problems else ""
    )
    return f"none of {measured.rows:,} rows can be used: {kinds}{first}"


def of_rows(proposal: Proposal, evidence: Evidence) -> Iterator[str]:
    """Shape, ids, number."""
    if evidence.dataset.converted:
        yield (
            f"the rows are not in the form that trainers read ({proposal.recognised}): convert them in the "
            "training script the same way"
        )
    for name, repeated in proposal.columns.repeated.items():
        if proposal.columns.id is None:
            lacking = f"column {name} is no row id: {repeated:,} rows repeat or lack one"
            yield f"{lacking}; rows are named file:number"
    samples = len(evidence.measured.ledger)
    if samples < _FEW:
        share = shown(1 / samples, "ratio")
        yield f"there are only {_samples(samples)}: one of them moves a share by {share}"


def _samples(number: int) -> str:
    return f"{number:,} sample" if number == 1 else f"{number:,} samples"


def of_window(evidence: Evidence) -> Iterator[str]:
    """What the window costs, and how long the tail is."""
    plan, total = evidence.plan, evidence.measured.ledger.total
    if over := plan.count(OVERFLOW):
        longest = evidence.measured.ledger.ids[int(total.argmax())]
        yield (
            f"{_samples(over)} beyond the window of {plan.window:,} would be dropped; the longest, "
            f"{longest}, has {int(total.max()):,} tokens"
        )
    if cut := plan.count(TRUNCATE):
        yield f"the window cuts the last answer, and its end of turn, of {_samples(cut)}"


def of_tokenizer(evidence: Evidence) -> Iterator[str]:
    """Special tokens and the tokenizer's own limit."""
    if evidence.contract.tokenizer is None:
        return
    backend = evidence.tokenizer.backend
    eos, pad = backend.eos_token, backend.pad_token
    if pad is None:
        yield "the tokenizer has no pad token: trainers then take another one, often eos; set it on purpose"
    elif pad == eos:
        yield f"pad and eos are both {pad}: a collator that masks padding by its id masks the end of turn too"
    ends = evidence.sampler.scaffold.terminators
    if eos and ends and eos not in ends:
        yield (
            f"turns end with {' or '.join(ends)}, but the tokenizer's eos is {eos}: set the trained model's "
            "eos_token, or generation does not stop where training taught it to"
        )
    window, most = evidence.plan.window, backend.model_max_length
    if window > most:
        yield f"the window is {window:,} tokens, but the tokenizer's model_max_length is {most:,}"


def of_verdicts(judged: Iterable[tuple[Check, Verdict]], proposal: Proposal) -> Iterator[str]:
    """Checks that failed, warned or could not look."""
    judged = list(judged)
    present = next((verdict for check, verdict in judged if check.id == "supervision::present"), None)
    if present and (present.measured or 0) * 2 > proposal.lengths.count:
        yield (
            "most samples have no answer to learn: the template does not fit these rows, and the limits mean "
            "little; mend that first, then run init again with --force"
        )
    for check, verdict in judged:
        if check.id in proposal.waived:
            yield f"{_told(check, verdict)} (waived until {proposal.until})"
        elif verdict.outcome == "failed":
            yield f"{_told(check, verdict)} (the proposed limit allows it)"
        elif verdict.outcome == "warned":
            yield _told(check, verdict)
        elif verdict.outcome == "skipped":
            yield f"not looked at: {check.section}::{verdict.headline}"


def _told(check: Check, verdict: Verdict) -> str:
    first = f"; first in {verdict.witnesses[0]['id']}" if verdict.witnesses else ""
    context = f" ({verdict.context[0]})" if check.id == "dataset::rows" and verdict.context else ""
    return f"{check.section}::{verdict.headline}{context}{first}: {verdict.advice}"
