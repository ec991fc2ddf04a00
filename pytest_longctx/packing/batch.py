"""Packed rows and batches as they are delivered, read as numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_longctx.errors import PackingError
from pytest_longctx.tokens.sample import IGNORED

if TYPE_CHECKING:
    from numpy.typing import NDArray

PER_TOKEN = ("input_ids", "labels", "position_ids", "seq_idx", "attention_mask", "token_type_ids")
DENSE = (3, 4)
"""Dimensions of a dense mask: (B, T, T) or (B, heads, T, T)."""
VARLEN = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")


class PackedRow(NamedTuple):
    """One row of a packer or of a trainer's prepared dataset.

    ids, labels: int64[T]. lengths: int64[S], tokens of each segment, None where the packer does not say.
    """

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    lengths: NDArray[np.int64] | None


class Fault(NamedTuple):
    """What a batch says that cannot be. at: its flat position, 0 where it is of the batch as a whole."""

    text: str
    at: int = 0


def read_row(row: Any, maker: str, number: int) -> PackedRow:
    """Check that a packed row can be read at all.

    Raises:
        PackingError: naming the maker, the row, what was found and what was expected.
    """
    where = f"{maker}: row {number}"
    if not isinstance(row, Mapping):
        raise PackingError(f"{where} is a {type(row).__name__}, expected a mapping with input_ids and labels")
    ids, labels = (_column(row, name, where) for name in ("input_ids", "labels"))
    if len(labels) != len(ids):
        raise PackingError(f"{where} has {len(ids)} input_ids and {len(labels)} labels, expected as many")
    if not len(ids):
        raise PackingError(f"{where} is empty, expected one sample at least")
    _not_negative(ids, where)
    if row.get("seq_lengths") is None:
        return PackedRow(ids, labels, None)
    lengths = _column(row, "seq_lengths", where)
    if lengths.sum() != len(ids) or (lengths < 1).any():
        raise PackingError(
            f"{where} has seq_lengths {_shown(lengths)}, {int(lengths.sum())} in all; "
            f"expected positive lengths of {len(ids)} tokens in all"
        )
    return PackedRow(ids, labels, lengths)


def _shown(lengths: NDArray[np.int64], most: int = 8) -> str:
    return f"{lengths[:most].tolist()}{'…' if len(lengths) > most else ''}"


def _column(row: Mapping[str, Any], name: str, where: str) -> NDArray[np.int64]:
    if row.get(name) is None:
        raise PackingError(f"{where} has no {name}; it holds {', '.join(map(str, row)) or 'nothing'}")
    return _integers(row[name], f"{where}: {name}", 1)


@dataclass(frozen=True)
class Batch:
    """One collated batch, B rows of T tokens.

    ids, labels: int64[B, T]; labels of another shape are cut, or filled up with -100. fields: the batch as
    the collator gave it; maker names who made it.
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
        """A field as numpy array, or None where the batch lacks it or names several masks in it."""
        value = self.fields.get(name)
        return (
            None if value is None or isinstance(value, Mapping) else to_numpy(value, f"{self.maker}: {name}")
        )

    @cached_property
    def masks(self) -> dict[str, Any]:
        """Attention masks by name, as the newer models of transformers take them; one alone has the name "".

        Dense ones are arrays or tensors of three or four dimensions, not copied; layers without a mask are
        left out.

        Raises:
            PackingError: one of several masks is no array, or of a shape that is no mask's.
        """
        value = self.fields.get("attention_mask")
        if not isinstance(value, Mapping):
            return {} if value is None else {"": _array(value, f"{self.maker}: attention_mask")}
        masks = {}
        for name, given in value.items():
            if given is None:
                continue
            where = f"{self.maker}: attention_mask[{str(name)!r}]"
            masks[str(name)] = mask = _array(given, where)
            if mask.ndim not in DENSE and self.planes(to_numpy(mask, where), where) is None:
                tokens = f"({self.rows}, {self.width})"
                dense = f"({self.rows}, heads, {self.width}, {self.width})"
                raise PackingError(f"{where} has shape {tuple(mask.shape)}, expected {tokens} or {dense}")
        return masks

    def per_token(self, name: str) -> NDArray[Any] | None:
        """A field as `planes` gives it; None where it is absent as well."""
        array = self.array(name)
        return None if array is None else self.planes(array, f"{self.maker}: {name}")

    def planes(self, array: NDArray[Any], where: str) -> NDArray[Any] | None:
        """An array with one entry a token, of shape (planes, B, T): positions may have several planes.

        One row that stands for all is repeated. None where the array is of another length, which is what
        `aligned_fields` tells of.

        Raises:
            PackingError: it holds NaN.
        """
        if not array.size or array.ndim > 3 or array.shape[-1:] != (self.width,):
            return None
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise PackingError(f"{where} holds NaN")
        array = array.reshape((-1, *((1, self.width) if array.ndim == 1 else array.shape[-2:])))
        if array.shape[1] not in (1, self.rows):
            return None
        if array.shape[1] == self.rows:
            return array
        return np.broadcast_to(array, (array.shape[0], self.rows, self.width))


def _array(value: Any, what: str) -> Any:
    """An array or tensor as it is; nested lists as array."""
    return value if hasattr(value, "ndim") else to_numpy(value, what)


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
    if array.dtype.kind not in "biuf":
        raise PackingError(
            f"{what} holds {type(value).__name__} of {array.dtype}, expected an array of numbers"
        )
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
    ids, labels = (_integers(fields[name], f"{maker}: {name}", 2) for name in ("input_ids", "labels"))
    if ids.size == 0:
        raise PackingError(f"{maker} gave an empty batch, shape {ids.shape}")
    _not_negative(ids, maker)
    return Batch(ids, _fitted(labels, ids.shape), fields, maker)


def _fitted(labels: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    if labels.shape == shape:
        return labels
    fitted = np.full(shape, IGNORED, dtype=np.int64)
    rows, width = (min(sizes) for sizes in zip(labels.shape, shape, strict=True))
    fitted[:rows, :width] = labels[:rows, :width]
    return fitted


def _not_negative(ids: NDArray[np.int64], where: str) -> None:
    if ids.min() < 0:
        place = np.argwhere(ids < 0)[0].tolist()
        raise PackingError(f"{where}: input_ids{place} is {ids[tuple(place)]}, expected ids from 0")


def _integers(value: Any, what: str, dimensions: int) -> NDArray[np.int64]:
    array = to_numpy(value, what)
    if array.ndim != dimensions:
        expected = "(rows, tokens)" if dimensions == 2 else "(tokens,)"
        raise PackingError(f"{what} has shape {array.shape}, expected {expected}")
    if array.dtype.kind not in "iu" and array.size:
        raise PackingError(f"{what} has type {array.dtype}, expected integers")
    return array.astype(np.int64, copy=False)
