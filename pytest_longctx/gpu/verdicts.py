"""What a run means: a verdict for every check of the contract's `gpu` section, and one decision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_longctx.gpu import limits, mechanism
from pytest_longctx.gpu.found import clip
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_longctx.contract import GpuSection
    from pytest_longctx.gpu.found import Found
    from pytest_longctx.gpu.record import Decision, Evidence, Failure, Mode

MECHANISM: dict[str, Callable[[Found], Verdict]] = {
    "length_curve": mechanism.length_curve,
    "finite": mechanism.finite,
    "memory_trend": mechanism.memory_trend,
    "packing_boundaries": mechanism.packing_boundaries,
    "same_supervision": mechanism.same_supervision,
}
LIMITS: dict[str, Callable[[Found], Verdict]] = {
    "max_peak_memory_gb": limits.max_peak_memory_gb,
    "min_packing_speedup": limits.min_packing_speedup,
    "max_step_time_ratio": limits.max_step_time_ratio,
}
# Stages before the first step: a failure there says nothing of the workload.
BEFORE_MEASURING = ("started", "device", "model")


def check_names(terms: GpuSection) -> list[str]:
    """The checks of a section, in order: the five of the mechanism, then the limits it sets."""
    return [*MECHANISM, *(name for name in LIMITS if getattr(terms.limits, name) is not None)]


def judge(found: Found) -> dict[str, Verdict]:
    """The verdict of every check: none is missing, whatever the run did not come to."""
    return {name: _verdict(name, found) for name in check_names(found.terms)}


def _verdict(name: str, found: Found) -> Verdict:
    if found.mode == "dry_run" and found.failure is None:
        advice = "--longctx-gpu=real on a CUDA device measures it, --longctx-gpu=cpu tries the mechanism"
        return Verdict("skipped", f"{name} is planned: a dry run measures nothing", advice=advice)
    if name in LIMITS and found.mode == "cpu":
        headline = f"{name} is not judged on a CPU, which tells nothing of a GPU"
        return Verdict("skipped", headline, advice="run with --longctx-gpu=real on a CUDA device")
    return {**MECHANISM, **LIMITS}[name](found)


def demanded(checks: Mapping[str, Verdict], mode: Mode) -> dict[str, Verdict]:
    """The same verdicts where a GPU is required: whatever was skipped or ran elsewhere has failed."""
    return {name: _demanded(name, verdict, mode) for name, verdict in checks.items()}


def _demanded(name: str, verdict: Verdict, mode: Mode) -> Verdict:
    if verdict.outcome == "failed" or (mode == "real" and verdict.outcome != "skipped"):
        return verdict
    reason = "and was skipped" if mode == "real" else f"and this is a {mode} run"
    context = (verdict.headline, *verdict.context)
    return replace(verdict, outcome="failed", headline=clip(f"{name} is required, {reason}"), context=context)


def conclude(mode: Mode, checks: Mapping[str, Verdict], failure: Failure | None) -> tuple[Evidence, Decision]:
    """How much was seen, and what follows from it.

    A limit that fails asks for tuning; a broken mechanism or a failed stage must be fixed first. Without a
    real run nothing is accepted: at most it is ready to be measured.
    """
    if failure is not None and failure.stage in BEFORE_MEASURING:
        return "none", "not_measured"
    if mode == "dry_run":
        return "plan", "ready_to_measure"
    evidence: Evidence = "measurement" if mode == "real" else "mechanism"
    failed = {name for name, verdict in checks.items() if verdict.outcome == "failed"}
    if failure is not None or failed & set(MECHANISM):
        return evidence, "reject_until_fixed"
    if failed:
        return evidence, "tune"
    return evidence, "accept_mechanism" if mode == "real" else "ready_to_measure"
