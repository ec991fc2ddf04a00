"""Shipped collators: numpy ones, and those of TRL and transformers behind the same call."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import PackingError, import_extra
from pytest_longctx.packing.mask import BLOCK, triangle
from pytest_longctx.tokens.sample import IGNORED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Row = Mapping[str, Any]
    Collator = Callable[[list[dict[str, Any]]], Mapping[str, Any]]


def segment_lengths(row: Row) -> list[int]:
    """The lengths of a packed row's segments; one segment where the packer does not say."""
    lengths = row.get("seq_lengths")
    return [len(row["input_ids"])] if lengths is None else [int(length) for length in lengths]


def _padded_columns(rows: Sequence[Row], pad_token_id: int) -> dict[str, NDArray[np.int64]]:
    """ids, labels, positions and segment numbers from 1 (0: padding), int64[B, T]; starts are no targets."""
    shape = (len(rows), max(len(row["input_ids"]) for row in rows))
    columns = {
        "input_ids": np.full(shape, pad_token_id, dtype=np.int64),
        "labels": np.full(shape, IGNORED, dtype=np.int64),
        "position_ids": np.zeros(shape, dtype=np.int64),
        "segments": np.zeros(shape, dtype=np.int64),
    }
    for place, row in enumerate(rows):
        size, lengths = len(row["input_ids"]), np.asarray(segment_lengths(row))
        starts = np.cumsum(lengths) - lengths
        columns["input_ids"][place, :size] = row["input_ids"]
        columns["labels"][place, :size] = row["labels"]
        columns["labels"][place, starts] = IGNORED
        columns["position_ids"][place, :size] = np.arange(size) - np.repeat(starts, lengths)
        columns["segments"][place, :size] = np.repeat(np.arange(1, len(lengths) + 1), lengths)
    return columns


def block_mask(rows: list[dict[str, Any]], pad_token_id: int = 0) -> dict[str, Any]:
    """Rows with a dense bool mask (B, 1, T, T): token i sees j in the same segment with j ≤ i."""
    columns = _padded_columns(rows, pad_token_id)
    columns.pop("segments")
    width = columns["input_ids"].shape[1]
    mask = np.zeros((len(rows), 1, width, width), dtype=np.bool_)
    for place, row in enumerate(rows):
        ends = np.cumsum(segment_lengths(row)).tolist()
        for start, end in pairwise([0, *ends]):
            _show_causal(mask[place, 0], start, end)
    return {**columns, "attention_mask": mask}


def _show_causal(mask: NDArray[np.bool_], start: int, end: int) -> None:
    """Each token of a segment sees the segment up to itself."""
    for query in range(start, end, BLOCK):
        stop = min(query + BLOCK, end)
        mask[query:stop, start:query] = True
        mask[query:stop, query:stop] = triangle(stop - query)


def padded(rows: list[dict[str, Any]], pad_token_id: int = 0) -> dict[str, Any]:
    """Rows padded to the longest; the 2-D mask numbers the segments 1, 2, 3, … and padding 0."""
    columns = _padded_columns(rows, pad_token_id)
    segments = columns.pop("segments")
    return {**columns, "attention_mask": segments}


def _trl_padding_free(config: Mapping[str, Any], pad_token_id: int) -> Collator:
    trl = import_extra("trl.trainer.sft_trainer", "trl", "packing.collator: trl_padding_free")
    settings = {"pad_token_id": pad_token_id, "padding_free": True, **config}
    collator: Collator = trl.DataCollatorForLanguageModeling(**settings)
    return collator


def _flattening(config: Mapping[str, Any], pad_token_id: int) -> Collator:
    """transformers' collator takes one sample a feature, so packed rows are handed over sample by sample."""
    import_extra("torch", "trl", "packing.collator: flattening")
    transformers = import_extra("transformers", "trl", "packing.collator: flattening")
    collator = transformers.DataCollatorWithFlattening(**config)

    def collate(rows: list[dict[str, Any]]) -> Mapping[str, Any]:
        batch: Mapping[str, Any] = collator([sample for row in rows for sample in split(row)])
        return batch

    return collate


def split(row: Row) -> list[dict[str, Any]]:
    """The samples of a packed row."""
    edges = np.cumsum(segment_lengths(row))[:-1]
    columns = (np.split(np.asarray(row[name]), edges) for name in ("input_ids", "labels"))
    return [{"input_ids": ids, "labels": labels} for ids, labels in zip(*columns, strict=True)]


def _numpy(collate: Callable[..., Any], config: Mapping[str, Any], pad_token_id: int) -> Collator:
    return partial(collate, **{"pad_token_id": pad_token_id, **config})


SHIPPED: dict[str, Callable[[Mapping[str, Any], int], Collator]] = {
    "block_mask": partial(_numpy, block_mask),
    "padded": partial(_numpy, padded),
    "trl_padding_free": _trl_padding_free,
    "flattening": _flattening,
}


def build_collator(name: str, config: Mapping[str, Any], pad_token_id: int) -> Collator:
    """A shipped collator with the contract's settings.

    Raises:
        PackingError: the collator does not take these settings.
    """
    try:
        return SHIPPED[name](config, pad_token_id)
    except TypeError as error:
        raise PackingError(f"packing.collator: {name} does not take {dict(config)}: {error}") from error
