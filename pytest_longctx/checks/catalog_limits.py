"""The limits of the sections in words; what each measures is said by the contract's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.checks.entry import Entry
from pytest_longctx.contract import GpuLimits, LengthsLimits, PackingLimits, WindowLimits

if TYPE_CHECKING:
    from pytest_longctx.contract import Section

_MODELS: dict[str, type[Section]] = {
    "lengths": LengthsLimits,
    "window": WindowLimits,
    "packing": PackingLimits,
    "gpu": GpuLimits,
}

# Why each matters, and how to mend it.
_WORDS: dict[str, tuple[str, str]] = {
    "lengths::max_tokens": (
        "One row of a hundred times the usual length decides peak memory, and often is a faulty export.",
        "Look at the longest rows that the message names; split or drop them.",
    ),
    "lengths::max_p50_tokens": (
        "The median moves when the mix of sources does, and with it the cost of a step.",
        "Compare the sources with those of the last run; use `slices` to see which one moved.",
    ),
    "lengths::max_p95_tokens": (
        "It tells which window the data needs, without the few rows that nothing can hold.",
        "Look at the longest rows, or plan a larger window.",
    ),
    "lengths::min_long_share": (
        "Without long samples a long window trains nothing that the short one did not.",
        "Add long samples, or lower the window to what the data has.",
    ),
    "lengths::max_long_share": (
        "Many long samples make steps dear, and crowd out the short ones that keep short answers good.",
        "Sample the long sources down.",
    ),
    "lengths::min_short_share": (
        "Models that see only long samples get worse at short ones.",
        "Mix short samples in.",
    ),
    "lengths::max_short_share": (
        "Data of nearly only short samples does not need a long window.",
        "Add long samples, or lower the window.",
    ),
    "window::max_overflow_ratio": (
        "A sample whose prompt, or most of whose answer, lies beyond the window is lost or trains nothing.",
        "Widen the window to what the message says, or drop or shorten the rows that it names.",
    ),
    "window::max_truncated_ratio": (
        "A sample that is cut lost its end of turn: many of them teach the model not to stop.",
        "Widen the window, or shorten the answers.",
    ),
    "window::min_kept_supervision_ratio": (
        "A few long samples can hold most of the supervised tokens; a share of samples does not show it.",
        "Widen the window, or split the long samples where the task allows it.",
    ),
    "window::min_kept_turn_ratio": (
        "In dialogues of many turns the last ones are lost first, and they are the ones with long context.",
        "Widen the window, or start long dialogues later.",
    ),
    "packing::min_utilization": (
        "Empty room in packed rows is paid for like tokens.",
        "Pack larger map batches, longest samples first, or use the packer `ffd`.",
    ),
    "packing::max_rows_over_bound": (
        "Rows beyond what the tokens need are steps beyond what the tokens need.",
        "Pack larger map batches, longest samples first, or use the packer `ffd`.",
    ),
    "packing::max_rows_over_optimal": (
        "The bound knows which samples cannot share a row, so that what is left is the packer's own loss.",
        "Use a packer that sorts by length; samples just over half of a row cannot be paired by any.",
    ),
    "packing::max_padding_ratio": (
        "Padding is computed like tokens and trains nothing.",
        "Use a padding-free collator, or batches of rows of like length.",
    ),
    "gpu::max_peak_memory_gb": (
        "A run that is out of memory on its longest row stops in the middle of an epoch.",
        "Shorten the rows, use gradient checkpointing or a smaller batch.",
    ),
    "gpu::min_packing_speedup": (
        "Packing that is not faster than padding is only a risk.",
        "See that an attention for packed rows is in use: dense attention over a row costs more.",
    ),
    "gpu::max_step_time_ratio": (
        "A step that got slower makes every run dearer, and nobody looks at it.",
        "Compare versions and attention with those of the baseline's record.",
    ),
}


def _entry(name: str, matters: str, mend: str) -> Entry:
    section, _, limit = name.partition("::")
    measured = (_MODELS[section].model_fields[limit].description or "").removesuffix(".")
    bound = "at least" if limit.startswith("min_") else "at most"
    return Entry(f"{measured}: {bound} the limit.", matters, mend)


LIMITS = {name: _entry(name, *words) for name, words in _WORDS.items()}
