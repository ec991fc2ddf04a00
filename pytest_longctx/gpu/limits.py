"""Verdicts of the limits on a real run's numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.gpu.found import GIGABYTE, clip, not_measured
from pytest_longctx.gpu.workload import PACKING
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from pytest_longctx.gpu.found import Found

_NO_BASELINE = "set gpu.baseline to a record of the same hardware and workload"


def max_peak_memory_gb(found: Found) -> Verdict:
    """The greatest allocated memory of all items, in GB of 10⁹ bytes."""
    limit = found.terms.limits.max_peak_memory_gb
    peaks = sorted(found.peaks(), key=lambda peak: -peak[1])
    measured = peaks[0][1] / GIGABYTE if peaks else None
    # A peak beyond the limit is known however the run went on.
    if measured is None or limit is None or (found.missing and measured <= limit):
        return not_measured("max_peak_memory_gb", found)
    if measured <= limit:
        return Verdict("passed", f"max_peak_memory_gb {measured:.4g} GB", measured, limit)
    headline = clip(f"max_peak_memory_gb {measured:.4g} GB > {limit:g} GB  ({peaks[0][0]})")
    witnesses = tuple({"where": where, "gb": size / GIGABYTE} for where, size in peaks[:5])
    advice = f"lower batch_size or the lengths, or allow {measured:.3g} GB"
    return Verdict("failed", headline, measured, limit, witnesses=witnesses, advice=advice)


def min_packing_speedup(found: Found) -> Verdict:
    """Padding's seconds / packing's for the same supervised tokens, median over the rounds."""
    limit, comparison = found.terms.limits.min_packing_speedup, found.comparison
    if limit is None or comparison is None or comparison.speedup is None:
        return not_measured("min_packing_speedup", found)
    measured = comparison.speedup
    agreed = comparison.agreement[PACKING]
    if not agreed.holds:
        headline = "min_packing_speedup means nothing: the losses of both arms differ"
        return Verdict("failed", headline, measured, limit, "factor", advice="see same_supervision")
    context = tuple(
        f"{arm.name}: {arm.processed_tokens:,} tokens, {arm.padding_tokens:,} of them padding, "
        f"{arm.steps.median_seconds * 1e3:.4g} ms, {arm.supervised_tokens_per_second:,.0f} supervised/s"
        for arm in comparison.arms
    )
    if measured >= limit:
        headline = f"min_packing_speedup {measured:.3g} ×"
        return Verdict("passed", headline, measured, limit, "factor", context)
    headline = f"min_packing_speedup {measured:.3g} × < {limit:g} ×"
    advice = "packing pays where lengths differ: use longer rows, or a kernel that skips what the mask hides"
    return Verdict("failed", headline, measured, limit, "factor", context, advice=advice)


def max_step_time_ratio(found: Found) -> Verdict:
    """The greatest ratio of a length's median step time to the baseline's."""
    limit, baseline = found.terms.limits.max_step_time_ratio, found.baseline
    if len(found.measurements) < len(found.workload.sequence_lengths) or limit is None:
        return not_measured("max_step_time_ratio", found)
    if baseline is None:
        return Verdict(
            "skipped", "max_step_time_ratio: no baseline is named", None, limit, "factor", advice=_NO_BASELINE
        )
    if not baseline.readable:
        headline = "max_step_time_ratio: the baseline cannot be read"
        return Verdict("failed", headline, None, limit, "factor", (baseline.reason,), advice=_NO_BASELINE)
    if baseline.reason:
        headline = clip(f"max_step_time_ratio not compared: {baseline.reason}")
        return Verdict("skipped", headline, None, limit, "factor", (baseline.reason,), advice=_NO_BASELINE)
    length, measured = max(baseline.ratios.items(), key=lambda pair: pair[1])
    context = (
        tuple(f"{name} tokens: {ratio:.3g} ×" for name, ratio in baseline.ratios.items()) + baseline.notes
    )
    if measured <= limit:
        return Verdict("passed", f"max_step_time_ratio {measured:.3g} ×", measured, limit, "factor", context)
    headline = clip(
        f"max_step_time_ratio {measured:.3g} × > {limit:g} ×  ({length} tokens, {baseline.label})"
    )
    advice = "find what grew slower; a new record becomes the baseline only by hand"
    return Verdict("failed", headline, measured, limit, "factor", context, advice=advice)
