"""Section window: what the window rejects, cuts and keeps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.checks.check import (
    SHOWN,
    Check,
    both_limits,
    limit_key,
    limit_names,
    limit_verdict,
    offence_verdict,
)
from pytest_longctx.intervals import Interval, proportion, ratio_of_sums
from pytest_longctx.tokens.sample import SUPERVISED
from pytest_longctx.verdict import Verdict, shown
from pytest_longctx.window import OVERFLOW, REASONS, TRUNCATE, WindowPolicy, smallest_window
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence


def checks(contract: Contract) -> list[Check]:
    """`policy`, and the limits that the section sets."""
    section = contract.window
    found = [Check("window", "policy", ("window",), "plan", policy)]
    for name in limit_names(section):
        key = limit_key("window", section, name)
        found.append(Check("window", name, key, "plan", partial(limit, name), name.startswith("min_")))
    return found


def policy(evidence: Evidence) -> Verdict:
    """Every sample has exactly one decision, some are admitted, and no truncation eats prompt or template."""
    plan, ledger = evidence.plan, evidence.measured.ledger
    if not len(ledger) or not (plan.decision != OVERFLOW).any():
        return Verdict(
            "failed",
            f"policy: none of {len(ledger):,} samples is admitted",
            0,
            1,
            "samples",
            advice=f"no sample fits the window of {plan.window:,} tokens: check window and data",
        )
    witnesses = list(_policy_offences(evidence))
    what, advice = "cut against the policy", "report this: the plan is wrong"
    return offence_verdict("policy", len(witnesses), witnesses[:SHOWN], what, advice)


def _policy_offences(evidence: Evidence) -> Iterator[Witness]:
    """The plan against the samples themselves, read token by token where something was cut."""
    plan, samples, ledger = evidence.plan, evidence.measured.samples, evidence.measured.ledger
    for index in np.flatnonzero(plan.decision > OVERFLOW).tolist():
        yield Witness(ledger.ids[index], "fit, truncate or overflow", int(plan.decision[index]))
    if samples is None:
        return
    for index in np.flatnonzero(plan.decision == TRUNCATE).tolist():
        kind, length = samples[index].kind, int(plan.length[index])
        kept = int((kind[:length] == SUPERVISED).sum())
        if kept != int(plan.kept[index]):
            note = "supervised tokens before the cut"
            yield Witness(ledger.ids[index], int(plan.kept[index]), kept, note=note)


def measured_value(name: str, evidence: Evidence) -> float:
    """The window's limits by name, as shares of samples, supervised tokens or turns."""
    plan = evidence.plan
    if name == "max_overflow_ratio":
        return plan.overflow_ratio
    if name == "max_truncated_ratio":
        return plan.truncated_ratio
    if name == "min_kept_supervision_ratio":
        return plan.kept_supervision_ratio
    ledger = evidence.measured.ledger
    turns = int(ledger.turn_offsets[-1])
    return int(plan.kept_turns(ledger.turn_offsets, ledger.turns[:, 1]).sum()) / turns if turns else 1.0


def limit(name: str, evidence: Evidence) -> Verdict:
    """One limit of the section."""
    section, plan = evidence.contract.window, evidence.plan
    if name.startswith("min_kept") and not plan.supervised.any():
        headline = f"{name}: there is no supervised token to keep"
        return Verdict("failed", headline, advice="see supervision::present")
    chosen, note = _concerned(name, evidence)
    worst = chosen[np.argsort(-_lost(evidence)[chosen], kind="stable")]
    return limit_verdict(
        name,
        measured_value(name, evidence),
        "ratio",
        both_limits(section, name),
        note,
        _interval(name, evidence),
        context=(f"window {plan.window:,} = template + prompt + supervised",),
        witnesses=tuple(_ledger_row(evidence, index) for index in worst[:SHOWN].tolist()),
        more=max(0, len(worst) - SHOWN),
        advice=_advice(name, evidence, len(chosen)),
    )


def _interval(name: str, evidence: Evidence) -> Interval | None:
    """What the drawn rows tell of all rows; None where all were looked at."""
    plan, ledger, most = evidence.plan, evidence.measured.ledger, evidence.most_samples
    if most is None:
        return None
    if name in ("max_overflow_ratio", "max_truncated_ratio"):
        concerned = plan.count(OVERFLOW if name == "max_overflow_ratio" else TRUNCATE)
        return proportion(concerned, len(ledger), most)
    if name == "min_kept_supervision_ratio":
        return ratio_of_sums(plan.kept, plan.supervised, most)
    kept = plan.kept_turns(ledger.turn_offsets, ledger.turns[:, 1])
    return ratio_of_sums(kept, np.diff(ledger.turn_offsets), most)


def _lost(evidence: Evidence) -> NDArray[np.int64]:
    """int64[n], tokens beyond what is fed."""
    lost: NDArray[np.int64] = evidence.measured.ledger.total - evidence.plan.length
    return lost


def _concerned(name: str, evidence: Evidence) -> tuple[NDArray[np.int64], str]:
    """The samples behind a measured value, and the first line's note on them."""
    plan, ledger = evidence.plan, evidence.measured.ledger
    of_all = f"of {len(ledger):,} samples"
    if name == "max_overflow_ratio":
        chosen = np.flatnonzero(plan.decision == OVERFLOW)
    elif name == "max_truncated_ratio":
        chosen = np.flatnonzero(plan.decision == TRUNCATE)
    else:
        chosen = np.flatnonzero(plan.kept < plan.supervised)
        return chosen, f"{len(chosen):,} {of_all} lose supervision"
    return chosen, f"{len(chosen):,} {of_all}"


def _ledger_row(evidence: Evidence, index: int) -> dict[str, Any]:
    plan, ledger = evidence.plan, evidence.measured.ledger
    row = {
        "id": ledger.ids[index],
        "total": int(ledger.total[index]),
        "template": int(ledger.template[index]),
        "prompt": int(ledger.prompt[index]),
        "supervised": int(ledger.supervised[index]),
        "kept": int(plan.kept[index]),
    }
    reason = REASONS[int(plan.reason[index])]
    return {**row, "reason": reason.replace("_", " ")} if reason else row


def _advice(name: str, evidence: Evidence, concerned: int) -> str:
    widen = "widen the window, shorten the answers, or"
    if evidence.most_samples is not None:  # what would do for the rows drawn need not do for all
        return f"{widen} drop rows like the {concerned:,} listed by --longctx-report"
    terms, overflow = evidence.contract.window, evidence.plan.overflow_ratio
    drop = f"drop the {concerned:,} rows listed by --longctx-report"
    broken = [bound for bound in both_limits(terms, name).values() if bound is not None and overflow > bound]
    if name != "max_overflow_ratio" or terms is None or not broken:
        return f"{widen} {drop}"
    window_policy = WindowPolicy(terms.min_kept_supervised_tokens, terms.max_supervision_loss_ratio)
    window = smallest_window(evidence.columns, window_policy, broken[0])
    return f"a window of {shown(window, 'tokens')} would pass; or {drop}"
