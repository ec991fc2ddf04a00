"""Which calls leak: mask none or ones, cache on or off, metadata full or partial."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.isolation.batches import position_ids, varlen
from pytest_longctx.isolation.calls import Subject
from pytest_longctx.isolation.errors import UnavailableError
from pytest_longctx.isolation.results import ProbeResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_longctx.isolation.behaviour import Setting
    from pytest_longctx.isolation.results import Outcome
    from pytest_longctx.isolation.segments import IdArray

MASKS = ("none", "ones")
CACHES = ("off", "on")
# Metadata of a padding-free batch: all of it, and what is left when one part is lost on the way.
_DROPPED = {
    "full": (),
    "position_ids": ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx"),
    "no_position_ids": ("position_ids",),
    "no_max_length": ("max_length_q", "max_length_k"),
}
_METADATA = {"position_ids", *_DROPPED["position_ids"]}


def call_matrix(setting: Setting) -> ProbeResult:
    """Every cell, and the contract's own call, which must not leak. Cells are rows of `table`.

    A cell tells whether the last sample sees any other; the contract's own call is tried both ways round.
    """
    count = len(setting.segments.ids)
    alternate = [{k for k in range(count) if k % 2 == parity} for parity in (0, 1)]
    own = _own_cell(setting)
    outcome, measured, reason = _leak(setting.subject, setting, alternate)
    table = [_row(own, outcome, measured, reason, True)]
    for cell in product(MASKS, CACHES, _DROPPED):
        if cell != own:
            table.append(
                _row(
                    cell,
                    *_leak(_cell_subject(setting.subject, *cell), setting, [set(range(count - 1))]),
                    False,
                )
            )
    counted = {
        kind: sum(row["outcome"] == kind for row in table) for kind in ("isolated", "leaks", "unknown")
    }
    name = f"mask {own[0]}, cache {own[1]}, metadata {own[2]}"
    said = {
        "isolated": "keeps samples apart",
        "leaks": f"leaks {measured or 0:.2g}",
        "unknown": f"is refused: {reason}",
    }
    message = (
        f"the contract's call ({name}) {said[outcome]}; of {len(table)} calls {counted['isolated']} isolate, "
        f"{counted['leaks']} leak, {counted['unknown']} are refused"
    )
    return ProbeResult(
        "call_matrix", setting.attention, outcome, measured, setting.exact, message, (), tuple(table)
    )


def _row(
    cell: tuple[str, str, str], outcome: str, measured: float | None, reason: str, contract: bool
) -> dict[str, Any]:
    mask, cache, metadata = cell
    row = {"mask": mask, "cache": cache, "metadata": metadata, "outcome": outcome, "measured": measured}
    return row | {"reason": reason, "contract": contract}


def _leak(
    subject: Subject, setting: Setting, changes: Sequence[set[int]]
) -> tuple[Outcome, float | None, str]:
    """Outcome, largest leak and reason of a call: the samples of each set change, the others are watched."""
    segments = setting.segments
    try:
        batch = subject.batch(segments.ids)
        base = subject.logits(batch)
        scale = max(1.0, float(base.abs().max()))
        largest = 0.0
        for changed in changes:
            moved = (subject.logits(subject.batch(segments.changed(changed))) - base).abs().amax(-1) / scale
            watched = [moved[p.row, p.tokens].max() for k, p in enumerate(batch.places) if k not in changed]
            largest = max(largest, *map(float, watched))
    except UnavailableError as error:
        return "unknown", None, str(error)
    return ("leaks" if largest > setting.exact else "isolated"), largest, ""


def _cell_subject(subject: Subject, mask: str, cache: str, metadata: str) -> Subject:
    return Subject(subject.model, _make(mask, metadata), {"use_cache": cache == "on"}, subject.loss)


def _make(mask: str, metadata: str) -> Callable[[list[IdArray]], Mapping[str, Any]]:
    def make(samples: Sequence[IdArray]) -> dict[str, Any]:
        batch = position_ids(samples) | varlen(samples)
        if mask == "ones":
            batch["attention_mask"] = np.ones_like(batch["input_ids"])
        return {key: value for key, value in batch.items() if key not in _DROPPED[metadata]}

    return make


def _own_cell(setting: Setting) -> tuple[str, str, str]:
    """The cell that the contract's own call belongs to; `other` where no cell of the matrix is like it."""
    inputs = setting.original().inputs
    given = {key for key in inputs if inputs[key] is not None}
    cache = inputs.get(
        "use_cache", getattr(getattr(setting.subject.model, "config", None), "use_cache", False)
    )
    metadata = next(
        (n for n, gone in _DROPPED.items() if given & {*_METADATA} == {*_METADATA} - {*gone}), "other"
    )
    return _mask_kind(inputs.get("attention_mask")), "on" if cache else "off", metadata


def _mask_kind(mask: Any) -> str:
    if mask is None:
        return "none"
    return "ones" if mask.ndim == 2 and bool((mask == 1).all()) else "other"
