"""Section curriculum: the gates between a stage and the one before it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_longctx.checks.check import Check, clip
from pytest_longctx.checks.packing import rows_unseen
from pytest_longctx.curriculum import GATES, StageResult, evaluate_stage, stage_order
from pytest_longctx.stages import batch_of, length_mix, measured_budget
from pytest_longctx.verdict import Verdict, shown, told_apart

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_longctx.contract import Contract
    from pytest_longctx.curriculum import Gate, Stage
    from pytest_longctx.evidence import Evidence

ADVICE = {
    "token_budget_mismatch": "train both stages on equally many supervised tokens a step",
    "insufficient_long_context_gain": "hold the stage: longer rows have not paid off yet",
    "short_context_regression": "mix more short samples into the stage",
    "nonfinite_loss": "find the batch; lower the learning rate or train in another precision",
    "nonfinite_gradients": "clip gradients; look for rows without targets",
    "failed_runs": "mend the runs that failed before the stage is entered",
    "peak_memory_budget": "shorten the rows, or use gradient checkpointing",
    "cost_budget": "pack better, or raise the budget on purpose",
    "stage_order": "windows grow from stage to stage",
    "measured_token_budget": "the metrics are of other data, another batch or another packing than here",
    "length_mix": "admit more long samples at the longer window",
}

# What a stage has where the flag of its metrics is false.
NOT_FINITE = {
    "nonfinite_loss": "losses that are not finite",
    "nonfinite_gradients": "gradients that are not finite",
}

# Gates whose limit is a lower one.
LEAST = (
    "insufficient_long_context_gain",
    "nonfinite_loss",
    "nonfinite_gradients",
    "stage_order",
    "length_mix",
)


def checks(contract: Contract) -> list[Check]:
    """Every gate once a stage; token budget and mix of lengths where the contract has what they need."""
    section = contract.curriculum
    if section is None:
        return []
    judges: dict[str, tuple[Callable[..., Verdict], str]] = {
        name: (partial(gate, name), "stages") for name in GATES
    }
    judges["stage_order"] = (order, "stages")
    if contract.packing is not None:
        judges["measured_token_budget"] = (token_budget, "audit")
    if contract.lengths is not None:
        judges["length_mix"] = (mix, "columns")
    return [
        Check(
            "curriculum",
            name,
            ("curriculum", "stages", place, "name"),
            needs,
            partial(judge, place),
            name in LEAST,
            part=stage.name,
        )
        for place, stage in enumerate(section.stages)
        for name, (judge, needs) in judges.items()
        if name != "measured_token_budget" or batch_of(section, place)
    ]


def _pair(place: int, evidence: Evidence) -> tuple[Stage, Stage]:
    baseline, *stages = evidence.stages
    return (stages[place - 1] if place else baseline), stages[place]


def gate(name: str, place: int, evidence: Evidence) -> Verdict:
    """One of the seed's eight gates."""
    before, after = _pair(place, evidence)
    limits = evidence.contract.curriculum
    result = evaluate_stage(
        before.metrics, after.metrics, limits.limits.model_dump() if limits else {}, (before.name, after.name)
    )
    found = next(gate for gate in result.gates if gate.name == name)
    return _verdict(found, before, after, _decision(result, name))


def _decision(result: StageResult, name: str) -> str:
    """What is known of the decision: a failed gate holds the stage; if none did, checks outside may."""
    others = [other for other in result.failed_gates if other != name]
    if others:
        return f"decision: hold; also failed: {', '.join(others)}"
    return "decision: hold" if result.failed_gates else ""


def order(place: int, evidence: Evidence) -> Verdict:
    """The stage's window is larger than the one before it."""
    before, after = _pair(place, evidence)
    found = stage_order(before, [after])[0]
    return _verdict(found, before, after, "")


def _verdict(found: Gate, before: Stage, after: Stage, context: str) -> Verdict:
    return Verdict(
        outcome="passed" if found.passed else "failed",
        headline=clip(f"{found.name}: {after.name} has {_told(found)}"),
        measured=_value(found.measured),
        limit=None if found.relation == "=" else _value(found.limit),
        unit="number",
        context=tuple(filter(None, (f"compared with {before.name}", context))),
        advice=ADVICE[found.name],
    )


def _told(found: Gate) -> str:
    if found.name in NOT_FINITE:
        return f"{'no ' if found.passed else ''}{NOT_FINITE[found.name]}"
    has, needed = told_apart(found.measured, found.limit, "number")
    return f"{has}, needed {found.relation} {needed}"


def _value(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def token_budget(place: int, evidence: Evidence) -> Verdict:
    """Supervised tokens of an optimizer step, from this contract's rows, against what the metrics claim."""
    section = evidence.contract.curriculum
    _, after = _pair(place, evidence)
    claimed = after.metrics["supervised_tokens_per_optimizer_step"]
    measured = measured_budget(evidence, place)
    if measured is None:
        return rows_unseen("measured_token_budget", evidence)
    tolerance = section.token_budget_tolerance if section else 0.0
    off = abs(measured.tokens - claimed) / claimed
    found = f"{after.name} has {measured.tokens:,.0f} a step"
    return Verdict(
        outcome="passed" if off <= tolerance else "failed",
        headline=clip(f"measured_token_budget: {found}, the metrics claim {claimed:,}"),
        measured=off,
        limit=tolerance,
        unit="ratio",
        context=(
            f"measured {measured.tokens:,.1f} supervised tokens a step, off by {shown(off, 'ratio')}",
            measured.counted,
        ),
        advice=ADVICE["measured_token_budget"],
    )


def mix(place: int, evidence: Evidence) -> Verdict:
    """The stage admits samples, and the share of long ones among them does not fall from stage to stage."""
    before, after = _pair(place, evidence)
    earlier, now = (length_mix(evidence, stage.target_context_len) for stage in (before, after))
    if now is None:
        return Verdict(
            "failed",
            f"length_mix: no sample is admitted at {after.target_context_len:,}, needed at least one",
            advice="enlarge the stage's window: every sample overflows it",
        )
    if earlier is None:
        lacking = "window" if before.target_context_len is None else "admitted sample"
        return Verdict("passed", f"length_mix: {before.name} has no {lacking} to compare with")
    text = f"length_mix: long share {shown(now['long'], 'ratio')} after {shown(earlier['long'], 'ratio')}"
    return Verdict(
        outcome="failed" if now["long"] < earlier["long"] else "passed",
        headline=clip(text),
        measured=now["long"],
        limit=earlier["long"],
        unit="ratio",
        context=tuple(
            f"{stage.name}: " + ", ".join(f"{name} {shown(share, 'ratio')}" for name, share in mixed.items())
            for stage, mixed in ((before, earlier), (after, now))
        ),
        advice=ADVICE["length_mix"],
    )
