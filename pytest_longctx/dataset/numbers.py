"""Shapes of numbers: token ids that are made already, and lengths alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.dataset.fault import RowError, found_type, json_type, missing_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

MASKS = ("assistant_masks", "completion_mask")
IGNORED = -100
_LARGEST = 2**31 - 1  # of int32, as the ledger and its tokens are


def tokenized(row: Mapping[str, Any]) -> dict[str, Any]:
    """Token ids with `labels` as they are (TRL's rule), else labelled by id where every given mask is 1."""
    if row.get("input_ids") is None:
        raise missing_keys(row, "input_ids")
    ids = _whole_numbers(row, "input_ids", 0)
    if not len(ids):
        raise RowError("empty_row", "input_ids is empty")
    if row.get("labels") is not None:
        _same_length(_whole_numbers(row, "labels", IGNORED), ids, "labels")
        return {"input_ids": row["input_ids"], "labels": row["labels"]}
    return {"input_ids": row["input_ids"], "labels": _masked(row, ids).tolist()}


def _masked(row: Mapping[str, Any], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    masks = [name for name in MASKS if row.get(name) is not None]
    if not masks:
        raise missing_keys(row, "labels", *MASKS)
    kept = np.ones(len(ids), dtype=bool)
    for name in masks:
        mask = _whole_numbers(row, name, 0)
        _same_length(mask, ids, name)
        if mask.max() > 1:
            raise RowError("bad_tokens", f"{name} holds {int(mask.max())}; expected 0 and 1")
        kept &= mask == 1
    return np.where(kept, ids, IGNORED)


def _whole_numbers(row: Mapping[str, Any], key: str, least: int) -> NDArray[np.int64]:
    values = row[key]
    if type(values) is not list:
        raise RowError("bad_tokens", f"{key} is {json_type(values)}; expected a list of whole numbers")
    if set(map(type, values)) - {int}:
        wrong = next(value for value in values if type(value) is not int)
        raise RowError(
            "bad_tokens", f"{key} holds {json_type(wrong)} ({type(wrong).__name__}); expected whole numbers"
        )
    try:
        numbers = np.array(values, dtype=np.int64)
    except OverflowError:
        numbers = None
    if numbers is None or (len(numbers) and (numbers.min() < least or numbers.max() > _LARGEST)):
        found = min(values) if min(values) < least else max(values)
        raise RowError("bad_tokens", f"{key} holds {found}; expected {least} to {_LARGEST}")
    return numbers


def _same_length(values: NDArray[np.int64], ids: NDArray[np.int64], name: str) -> None:
    if len(values) != len(ids):
        raise RowError("length_mismatch", f"{name} has {len(values)} entries, input_ids has {len(ids)}")


def lengths(row: Mapping[str, Any]) -> dict[str, Any]:
    """Token counts: `prompt_tokens` of 0 or more, `supervised_tokens` of 1 or more, an int32 in all."""
    for key, least in (("prompt_tokens", 0), ("supervised_tokens", 1)):
        if row.get(key) is None:
            raise missing_keys(row, "prompt_tokens", "supervised_tokens")
        if type(row[key]) is not int:
            raise RowError("bad_lengths", f"{key} is {found_type(row, key)}; expected a whole number")
        if row[key] < least:
            raise RowError("bad_lengths", f"{key} is {row[key]}; expected {least} or more")
    found = {key: row[key] for key in ("prompt_tokens", "supervised_tokens")}
    if sum(found.values()) > _LARGEST:
        named = ", ".join(f"{key} is {value}" for key, value in found.items())
        raise RowError("bad_lengths", f"{named}; expected at most {_LARGEST:,} tokens in all")
    return found
