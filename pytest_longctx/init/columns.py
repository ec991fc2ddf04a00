"""Columns of the rows that a contract can name: the row id, and the one to slice by."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pytest_longctx.dataset.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_longctx.dataset.rows import RowProblem

_ID = re.compile(r"(.*_)?(id|uid|uuid|guid|key|hash)", re.IGNORECASE)
_MOST_SLICES = 50
_LONGEST_SLICE = 40


@dataclass
class Columns:
    """What the rows have besides their content.

    id: a column with another value in every row. repeated: columns named like ids that are none, with the
    number of rows that repeat a value. slices: columns of a few texts, with the number of values.
    """

    id: str | None = None
    repeated: dict[str, int] = field(default_factory=dict)
    slices: dict[str, int] = field(default_factory=dict)


@dataclass
class _Column:
    """One column over the rows so far; its digests take 8 bytes a row."""

    rows: int = 0
    digests: set[bytes] = field(default_factory=set)
    values: Counter[str] = field(default_factory=Counter)
    texts: bool = True

    def add(self, value: Any) -> None:
        if type(value) not in (str, int):
            self.texts = False
            return
        self.rows += 1
        self.digests.add(blake2b(str(value).encode("utf-8", "surrogatepass"), digest_size=8).digest())
        self.texts = self.texts and type(value) is str and len(value) <= _LONGEST_SLICE
        if self.texts and len(self.values) <= _MOST_SLICES:
            self.values[value] += 1


def read_columns(rows: Iterable[Row | RowProblem]) -> Columns:
    """Look at every row once."""
    count = 0
    seen: dict[str, _Column] = {}
    for row in rows:
        if not isinstance(row, Row):
            continue
        count += 1
        for name, value in row.value.items():
            if count == 1 or name in seen:
                seen.setdefault(name, _Column()).add(value)
    return _judged(count, seen)


def _judged(count: int, seen: dict[str, _Column]) -> Columns:
    named = {name: column for name, column in seen.items() if _ID.fullmatch(name) and column.rows}
    unique = [name for name, column in named.items() if column.rows == len(column.digests) == count]
    return Columns(
        id=min(unique, key=lambda name: (len(name), name)) if unique else None,
        repeated={name: count - len(column.digests) for name, column in named.items() if name not in unique},
        slices={
            name: len(column.values)
            for name, column in seen.items()
            if column.texts
            and column.rows == count
            and 1 < len(column.values) <= min(_MOST_SLICES, count // 4)
        },
    )
