"""Verdicts that need no limit: did all run, are the numbers sound, do both arms train the same?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING

from pytest_longctx.gpu.found import GIGABYTE, clip, not_measured
from pytest_longctx.gpu.workload import PACKING, PADDING
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from pytest_longctx.gpu.found import Found
    from pytest_longctx.gpu.record import LengthMeasurement

SHOWN = 5


def length_curve(found: Found) -> Verdict:
    """Every length of the workload was measured."""
    wanted, measured = len(found.workload.sequence_lengths), found.measurements
    if len(measured) < wanted:
        return replace(not_measured("length_curve", found), measured=len(measured), limit=wanted)
    first, last = measured[0], measured[-1]
    times = f"{first.steps.median_seconds * 1e3:.3g} → {last.steps.median_seconds * 1e3:.3g} ms"
    headline = clip(f"length_curve {first.length} → {last.length} tokens: {times} a step")
    return Verdict("passed", headline, len(measured), wanted, context=tuple(map(_point, measured)))


def _point(item: LengthMeasurement) -> str:
    median, p95 = item.steps.median_seconds * 1e3, item.steps.p95_seconds * 1e3
    memory = item.peak.allocated_bytes / GIGABYTE
    return f"{item.length} tokens: median {median:.4g} ms, p95 {p95:.4g} ms, peak {memory:.4g} GB"


def finite(found: Found) -> Verdict:
    """Every loss and gradient norm of every counted step is a finite number."""
    bad = tuple(
        {"where": where, "step": number, "loss": str(loss), "gradient_norm": str(norm)}
        for where, steps in found.steps()
        for number, (loss, norm) in enumerate(zip(steps.losses, steps.gradient_norms, strict=True), 1)
        if not (isfinite(loss) and isfinite(norm))
    )
    if bad:
        headline = f"finite: {len(bad)} steps have a loss or gradient norm that is no number"
        advice = "try bfloat16 or float32; look for rows without a target and masks that hide every token"
        verdict = Verdict("failed", headline, len(bad), 0, "offences", advice=advice)
        return replace(verdict, witnesses=bad[:SHOWN], more=max(0, len(bad) - SHOWN))
    if found.missing:
        return not_measured("finite", found)
    return Verdict("passed", "finite losses and gradients in every counted step", 0, 0, "offences")


def memory_trend(found: Found) -> Verdict:
    """Peak memory does not fall from one length to the next longer one, beyond the tolerance."""
    if len(found.measurements) < len(found.workload.sequence_lengths):
        return not_measured("memory_trend", found)
    falls = [
        (
            (before.peak.allocated_bytes - after.peak.allocated_bytes) / before.peak.allocated_bytes,
            before,
            after,
        )
        for before, after in pairwise(found.measurements)
        if before.peak.allocated_bytes
    ]
    limit = found.terms.memory_trend_tolerance
    if not falls:
        return Verdict("passed", "memory_trend: one length, nothing to compare", None, limit, "ratio")
    worst, before, after = max(falls, key=lambda fall: fall[0])
    measured = max(0.0, worst)
    if measured <= limit:
        return Verdict("passed", "memory_trend: peak memory grows with length", measured, limit, "ratio")
    where = f"from {before.length} to {after.length} tokens"
    text = f"memory_trend falls {100 * measured:.3g} % > {100 * limit:g} % {where}"
    advice = "the longer batch was not what ran, or another process shares the device: measure alone on it"
    witnesses = tuple(
        {"length": item.length, "peak_bytes": item.peak.allocated_bytes} for item in found.measurements
    )
    return Verdict("failed", clip(text), measured, limit, "ratio", witnesses=witnesses, advice=advice)


def packing_boundaries(found: Found) -> Verdict:
    """Starts are no targets, positions restart, no sample sees another: every invariant, in every arm."""
    layouts = found.comparison.layouts if found.comparison else ()
    count = sum(number for layout in layouts for number in layout.offences.values())
    if count:
        first = next(layout for layout in layouts if layout.offences)
        names = ", ".join(first.offences)
        headline = clip(f"packing_boundaries: {count} offences, {first.name}: {names}")
        witnesses = tuple(dict(w) for layout in layouts for w in layout.witnesses)
        advice = "the arm's rows or its collator are wrong; nothing was timed on them"
        return Verdict("failed", headline, count, 0, "offences", witnesses=witnesses, advice=advice)
    if not {PADDING, PACKING} <= {layout.name for layout in layouts}:
        return not_measured("packing_boundaries", found)
    headline = f"packing_boundaries hold in {', '.join(layout.name for layout in layouts)}"
    return Verdict("passed", clip(headline), 0, 0, "offences")


def same_supervision(found: Found) -> Verdict:
    """All arms train the same number of tokens, and to the same loss."""
    comparison = found.comparison
    counts = {layout.name: layout.supervised_tokens for layout in comparison.layouts} if comparison else {}
    other = {name: count for name, count in counts.items() if count != counts.get(PADDING)}
    if other:
        name, count = next(iter(other.items()))
        headline = f"same_supervision: {name} trains {count:,} tokens, padding {counts.get(PADDING, 0):,}"
        advice = "both arms must be given the same samples with the same labels"
        return Verdict("failed", clip(headline), count, counts.get(PADDING), "tokens", advice=advice)
    if comparison is None or PACKING not in comparison.agreement:
        return not_measured("same_supervision", found)
    for name, agreed in comparison.agreement.items():
        if not agreed.holds:
            text = (
                f"same_supervision: loss of {name} differs by {agreed.difference:.2g} > {agreed.tolerance:g}"
            )
            context = (f"{name} {agreed.loss!r}, padding {agreed.reference!r}, in {agreed.dtype}",)
            advice = "samples see each other, or other targets are trained: the comparison means nothing"
            return Verdict(
                "failed", clip(text), agreed.difference, agreed.tolerance, "number", context, advice=advice
            )
    agreed = comparison.agreement[PACKING]
    headline = f"same_supervision: {counts[PADDING]:,} tokens in each arm, losses agree in {agreed.dtype}"
    return Verdict("passed", clip(headline), agreed.difference, agreed.tolerance, "number")
