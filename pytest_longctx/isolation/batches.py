"""The usual forms in which trainers name the segments of a packed row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.isolation.segments import IdArray  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    MakeBatch = Callable[[list[IdArray]], dict[str, Any]]

IGNORED = -100  # the label that no loss counts


def position_ids(segments: Sequence[IdArray]) -> dict[str, Any]:
    """Positions that restart at 0, and nothing else: `DataCollatorWithFlattening`."""
    restarting = np.concatenate([np.arange(len(ids)) for ids in segments])
    return _row(segments) | {"position_ids": restarting[None]}


def padding_free(segments: Sequence[IdArray]) -> dict[str, Any]:
    """Positions, cumulative and longest lengths, and segment numbers: TRL's padding-free collator."""
    return position_ids(segments) | varlen(segments)


def cumulative_only(segments: Sequence[IdArray]) -> dict[str, Any]:
    """Cumulative and longest lengths and segment numbers, but no positions."""
    return _row(segments) | varlen(segments)


def ones_mask(segments: Sequence[IdArray]) -> dict[str, Any]:
    """Positions that restart at 0, and a mask of ones."""
    batch = position_ids(segments)
    return batch | {"attention_mask": np.ones_like(batch["input_ids"])}


def segment_mask(segments: Sequence[IdArray]) -> dict[str, Any]:
    """Positions that restart at 0, and a mask with the segment number 1, 2, 3… of each token."""
    return position_ids(segments) | {"attention_mask": _numbers(segments)[None] + 1}


def bool_block_mask(segments: Sequence[IdArray]) -> dict[str, Any]:
    """Positions that restart at 0, and a bool mask (rows x 1 x tokens x tokens): same segment, not later."""
    numbers = _numbers(segments)
    same = numbers[:, None] == numbers[None, :]
    return position_ids(segments) | {"attention_mask": np.tril(same)[None, None]}


def additive_block_mask(segments: Sequence[IdArray]) -> dict[str, Any]:
    """Positions that restart at 0, and the block mask as float32: 0 where seen, the lowest elsewhere."""
    seen = bool_block_mask(segments)["attention_mask"]
    lowest = np.finfo(np.float32).min
    return position_ids(segments) | {"attention_mask": np.where(seen, np.float32(0), lowest)}


def one_a_row(segments: Sequence[IdArray]) -> dict[str, Any]:
    """One segment a row, padded at the right with id 0, and the mask of ones and zeros: no packing."""
    width = max(map(len, segments))
    ids = np.stack([np.pad(s, (0, width - len(s))) for s in segments])
    mask = np.stack([np.pad(np.ones_like(s), (0, width - len(s))) for s in segments])
    return {"input_ids": ids, "attention_mask": mask, "labels": np.where(mask == 1, ids, IGNORED)}


def two_rows(segments: Sequence[IdArray]) -> dict[str, Any]:
    """Positions that restart at 0, in two packed rows of equal length, filled with single tokens 0."""
    half = max(1, len(segments) // 2)
    parts = [list(segments[:half]), list(segments[half:])]
    width = max(sum(map(len, part)) for part in parts)
    filler = np.zeros(1, dtype=np.int64)
    rows = [position_ids(part + [filler] * (width - sum(map(len, part)))) for part in parts]
    batch = {key: np.concatenate([row[key] for row in rows]) for key in rows[0]}
    batch["labels"][batch["input_ids"] == 0] = IGNORED
    return batch


FORMS: dict[str, MakeBatch] = {
    form.__name__: form
    for form in (
        position_ids,
        padding_free,
        cumulative_only,
        ones_mask,
        segment_mask,
        bool_block_mask,
        additive_block_mask,
        one_a_row,
        two_rows,
    )
}


def varlen(segments: Sequence[IdArray]) -> dict[str, Any]:
    """The metadata of variable-length kernels, in the dtypes that they want."""
    lengths = [len(ids) for ids in segments]
    cumulative = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return {
        "cu_seq_lens_q": cumulative,
        "cu_seq_lens_k": cumulative,
        "max_length_q": max(lengths),
        "max_length_k": max(lengths),
        "seq_idx": _numbers(segments).astype(np.int32)[None],
    }


def _row(segments: Sequence[IdArray]) -> dict[str, Any]:
    ids = np.concatenate(segments)
    labels = ids.copy()
    labels[np.cumsum([0, *(len(s) for s in segments)])[:-1]] = IGNORED
    return {"input_ids": ids[None], "labels": labels[None]}


def _numbers(segments: Sequence[IdArray]) -> IdArray:
    return np.repeat(np.arange(len(segments)), [len(ids) for ids in segments])
