"""Batches of one kind side by side, so that small ones are looked at together: memory of one block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_longctx.packing.batch import VARLEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pytest_longctx.packing.audit import Delivery
    from pytest_longctx.packing.batch import PackedRow

    Ints = NDArray[np.int64]

MOST_TOKENS = 1 << 17
"""Tokens of a block of several batches."""
LARGE = 1 << 15
"""A batch of more tokens is a block of its own and is not copied."""
_COLUMNS = ("input_ids", "labels", "position_ids", "seq_idx", "attention_mask")


class Plain(NamedTuple):
    """A batch that names its segments in common dialects only, each in its common form.

    columns: [B, T] each, integers, or a bool mask. edges: cu_seq_lens_q and _k, int32[S+1] each, or none;
    longest: the lesser of max_length_q and _k, 0 where there are none. kind: what batches of one block have
    in common.
    """

    columns: dict[str, NDArray[Any]]
    edges: tuple[NDArray[np.int32], ...]
    longest: int
    kind: tuple[Any, ...]


def plain(fields: Mapping[str, Any]) -> Plain | None:
    """A batch in its common form; None where anything about it is unusual, whether right or wrong."""
    get = fields.get
    if get("seq_lengths") is not None or get("token_type_ids") is not None:
        return None
    columns: dict[str, NDArray[Any]] = {}
    kind: list[Any] = []
    shape = None
    for name in _COLUMNS:
        value = get(name)
        if value is None:
            continue
        column = _array(value)
        if column is None or column.ndim != 2 or column.shape != (shape or column.shape) or not column.size:
            return None
        # Integers too narrow to count the tokens of a batch could wrap around to what is expected.
        narrow = column.dtype.kind != "i" or column.dtype.itemsize < 4
        if narrow and (column.dtype.kind != "b" or name != "attention_mask"):
            return None
        columns[name], shape = column, column.shape
        kind += (name, column.dtype)
    if "input_ids" not in columns or "labels" not in columns:
        return None
    return _with_edges(columns, kind, [get(name) for name in VARLEN])


def _with_edges(columns: dict[str, NDArray[Any]], kind: list[Any], varlen: list[Any]) -> Plain | None:
    if all(value is None for value in varlen):
        return Plain(columns, (), 0, tuple(kind))
    queries, keys, *most = _array(varlen[0]), _array(varlen[1]), *varlen[2:]
    for edges in (queries, keys):
        if edges is None or edges.dtype != np.int32 or edges.ndim != 1 or edges.size < 2:
            return None
    if type(most[0]) is not int or type(most[1]) is not int:
        return None
    return Plain(columns, (queries, keys), min(most), (*kind, "varlen"))  # type: ignore[arg-type]


def _array(value: Any) -> NDArray[Any] | None:
    """A numpy array, or a torch tensor of integers as array."""
    if type(value) is np.ndarray:
        return value
    if hasattr(value, "detach") and not value.is_floating_point():
        array: NDArray[Any] = value.detach().cpu().numpy()
        return array
    return None


class Member(NamedTuple):
    """A batch of a block: where it lies, its delivery, and the number of its first packed row."""

    start: int
    shape: tuple[int, int]
    plain: Plain
    delivery: Delivery
    first_row: int

    @property
    def size(self) -> int:
        """B*T tokens."""
        return self.shape[0] * self.shape[1]

    @property
    def packed_rows(self) -> int:
        """How many packed rows it holds: a batch row may hold several, flattened."""
        rows = self.delivery.rows
        return self.shape[0] if rows is None else len(rows)


@dataclass
class Block:
    """Some batches of one kind, one after the other. columns: [N] each."""

    columns: dict[str, NDArray[Any]]
    members: list[Member] = field(default_factory=list)
    size: int = 0

    @classmethod
    def alone(cls, plain: Plain, delivery: Delivery, first_row: int) -> Block:
        """One batch, over its own memory."""
        columns = {name: column.ravel() for name, column in plain.columns.items()}
        shape = plain.columns["input_ids"].shape
        member = Member(0, (shape[0], shape[1]), plain, delivery, first_row)
        return cls(columns, [member], member.size)

    @classmethod
    def of_kind(cls, plain: Plain) -> Block:
        """An empty one for batches like this one."""
        return cls({name: np.empty(MOST_TOKENS, column.dtype) for name, column in plain.columns.items()})

    def has_room(self, plain: Plain) -> bool:
        """Whether one more batch goes in."""
        return self.size + plain.columns["input_ids"].size <= MOST_TOKENS

    def add(self, plain: Plain, delivery: Delivery, first_row: int) -> None:
        """Copy a batch, since who made it may reuse its memory for the next one."""
        start, shape = self.size, plain.columns["input_ids"].shape
        self.size = stop = start + shape[0] * shape[1]
        for name, column in plain.columns.items():
            self.columns[name][start:stop] = column.reshape(-1)
        if plain.edges:
            plain = plain._replace(edges=(plain.edges[0].copy(), plain.edges[1].copy()))
        self.members.append(Member(start, (shape[0], shape[1]), plain, delivery, first_row))

    def flat(self, name: str) -> NDArray[Any] | None:
        """A column of all batches, [N]; None where they have none."""
        column = self.columns.get(name)
        return None if column is None else column[: self.size]


class Waiting:
    """Puts small batches into blocks, and hands on block after block, in the order of the deliveries."""

    def __init__(self, judge: Callable[[Block], None]) -> None:
        self._judge = judge
        self._block: Block | None = None
        self._kind: tuple[Any, ...] = ()

    @property
    def rows(self) -> int:
        """Packed rows of the batches that wait."""
        return sum(member.packed_rows for member in self._block.members) if self._block else 0

    def take(self, delivery: Delivery, first_row: int) -> bool:
        """Take a batch; False where it cannot be judged together with others."""
        found = plain(delivery.batch) if isinstance(delivery.batch, Mapping) else None
        if found is None or not _rows_show(found, delivery.rows):
            return False
        if found.columns["input_ids"].size > LARGE:
            self.settle()
            self._judge(Block.alone(found, delivery, first_row))
            return True
        kind = (*found.kind, delivery.rows is None)
        if self._block is None or kind != self._kind:
            self.settle()
            self._block, self._kind = Block.of_kind(found), kind
        elif not self._block.has_room(found):
            self.settle()
        self._block.add(found, delivery, first_row)
        return True

    def settle(self) -> None:
        """Hand on what waits."""
        if self._block is not None and self._block.members:
            waiting, self._block.members = self._block.members, []
            self._judge(replace(self._block, members=waiting))
            self._block.size = 0


def _rows_show(plain: Plain, packed: Sequence[PackedRow] | None) -> bool:
    """Whether each packed row is a row of the batch, or all of them are its one row."""
    rows = len(plain.columns["input_ids"])
    return packed is None or len(packed) == rows or (rows == 1 and len(packed) > 0)


def fields_of(block: Block, member: Member) -> dict[str, Any]:
    """The batch as it was given, over the block's memory; fields that nothing reads are left out."""
    batch = member.delivery.batch or {}
    fields = {name: batch[name] for name in VARLEN if batch.get(name) is not None}
    fields |= dict(zip(VARLEN, member.plain.edges, strict=False))
    span = slice(member.start, member.start + member.size)
    return {**{name: column[span].reshape(member.shape) for name, column in block.columns.items()}, **fields}


def copied(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields in memory of their own."""
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in fields.items()}
