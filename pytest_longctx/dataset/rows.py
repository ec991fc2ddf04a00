"""Files → rows with ids."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pytest_longctx.dataset.columnar import read_columns
from pytest_longctx.dataset.fault import RowError, json_type, key_names
from pytest_longctx.dataset.files import COLUMN_SUFFIXES
from pytest_longctx.dataset.json_text import read_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One record as it lies in the dataset.

    `file` is a name that no other file of the dataset has; `number` counts from 1, and is that of the line in
    a file of lines.
    """

    id: str
    file: str
    number: int
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be used. `kind` is a snake_case reason; `message` never holds row text.

    A problem of a whole file has the file's name as id, and number 0.
    """

    id: str
    file: str
    number: int
    kind: str
    message: str


def read_file(path: Path, name: str) -> Generator[Row | RowProblem, None, None]:
    """All rows of one file under the ids `name:number`, in bounded memory."""
    reader = read_columns(path) if path.suffix.lower() in COLUMN_SUFFIXES else read_json(path)
    return with_numbers(reader, name)


def with_numbers(values: Iterable[tuple[int, Any]], name: str) -> Generator[Row | RowProblem, None, None]:
    """Rows of numbered values; where the reader gives up, the last one is a problem."""
    number = 0
    try:
        for number, value in values:
            if type(value) is dict:
                yield Row(f"{name}:{number}", name, number, value)
            else:
                yield _problem(name, number, _as_fault(value))
    except RowError as fault:
        yield _problem(name, number + 1, fault)
        return
    if not number:
        yield RowProblem(name, name, 0, "empty_file", "the file holds no row")


def _as_fault(value: Any) -> RowError:
    if isinstance(value, RowError):
        return value
    return RowError("not_an_object", f"the row is {json_type(value)}; expected an object")


def _problem(name: str, number: int, fault: RowError) -> RowProblem:
    return RowProblem(f"{name}:{number}", name, number, fault.kind, fault.message)


def with_ids(rows: Iterable[Row | RowProblem], column: str) -> Iterator[Row | RowProblem]:
    """The rows under the ids of a column; one without an id, or with an id seen before, is a problem."""
    seen: set[bytes] = set()
    for row in rows:
        if isinstance(row, RowProblem):
            yield row
            continue
        value = row.value.get(column)
        if type(value) not in (str, int):
            yield RowProblem(row.id, row.file, row.number, "bad_id", _bad_id(row, column))
            continue
        name = str(value)
        digest = blake2b(name.encode(), digest_size=8).digest()  # 8 bytes a row, whatever the ids are
        if digest in seen:
            message = f"another row before it has the same id in column {column!r}"
            yield RowProblem(name, row.file, row.number, "duplicate_id", message)
            continue
        seen.add(digest)
        yield Row(name, row.file, row.number, row.value)


def _bad_id(row: Row, column: str) -> str:
    found = (
        json_type(row.value[column])
        if column in row.value
        else f"missing; the row has {key_names(row.value)}"
    )
    return f"id column {column!r} is {found}; expected a text or a whole number"


def read_files(files: Iterable[Path], names: Iterable[str]) -> Generator[Row | RowProblem, None, None]:
    """All rows of all files, in file order."""
    for path, name in zip(files, names, strict=True):
        with closing(read_file(path, name)) as rows:
            yield from rows
