"""A batch as the model would receive it, as numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import PackingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PER_TOKEN = ("input_ids", "labels", "position_ids", "seq_idx", "attention_mask", "token_type_ids")
VARLEN = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")


@dataclass(frozen=True)
class Batch:
    """One collated batch, B rows of T tokens.

    ids, labels: int64[B, T]; fields: the batch as the collator gave it; maker names who made it.
    """

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    fields: Mapping[str, Any]
    maker: str

    @property
    def rows(self) -> int:
        """B."""
        return int(self.ids.shape[0])

    @property
    def width(self) -> int:
        """T."""
        return int(self.ids.shape[1])

    def array(self, name: str) -> NDArray[Any] | None:
        """A field as numpy array, or None where the batch lacks it."""
        value = self.fields.get(name)
        return None if value is None else to_numpy(value, f"{self.maker}: {name}")


def to_numpy(value: Any, what: str) -> NDArray[Any]:
    """An array over the same memory where that is possible.

    Raises:
        PackingError: for ragged nested lists and for values that are no array at all.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise PackingError(f"{what} is ragged: {error}; expected rows of one length") from error
    if array.dtype == object:
        raise PackingError(f"{what} holds {type(value).__name__}, expected an array of numbers")
    return array


def read_batch(fields: Any, maker: str) -> Batch:
    """Check that a collator's or trainer's output can be read at all.

    Raises:
        PackingError: naming the maker, what was found and what was expected.
    """
    if not isinstance(fields, Mapping):
        raise PackingError(
            f"{maker} gave a {type(fields).__name__}, expected a mapping with input_ids and labels"
        )
    for name in ("input_ids", "labels"):
        if fields.get(name) is None:
            raise PackingError(
                f"{maker}: the batch has no {name}; it holds {', '.join(map(str, fields)) or 'nothing'}"
            )
    ids, labels = _whole(fields["input_ids"], maker, "input_ids"), _whole(fields["labels"], maker, "labels")
    if ids.size == 0:
        raise PackingError(f"{maker} gave an empty batch, shape {ids.shape}")
    if (ids < 0).any():
        row, column = np.argwhere(ids < 0)[0].tolist()
        raise PackingError(f"{maker}: input_ids[{row}, {column}] is {ids[row, column]}, expected ids from 0")
    return Batch(ids, labels, fields, maker)


def _whole(value: Any, maker: str, name: str) -> NDArray[np.int64]:
    array = to_numpy(value, f"{maker}: {name}")
    if array.ndim != 2:
        raise PackingError(f"{maker}: {name} has shape {array.shape}, expected (rows, tokens)")
    if not np.issubdtype(array.dtype, np.integer):
        raise PackingError(f"{maker}: {name} has type {array.dtype}, expected integers")
    return array.astype(np.int64, copy=False)
