"""A dataset: rows in one shape, read again and again in bounded memory."""

from __future__ import annotations

import hashlib
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from pytest_longctx.dataset.conversation import Conversation
from pytest_longctx.dataset.fault import RowError, json_type, key_names
from pytest_longctx.dataset.files import display_names, find_files
from pytest_longctx.dataset.hub import hub_rows
from pytest_longctx.dataset.json_text import parse
from pytest_longctx.dataset.parts import read_part
from pytest_longctx.dataset.registered import registered_rows
from pytest_longctx.dataset.rows import Row, RowProblem, read_files, with_ids, with_numbers
from pytest_longctx.dataset.shapes import SHAPES, WITH_TOOLS, has_foreign_parts, recognise
from pytest_longctx.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_longctx.contract import Contract, DatasetSection
    from pytest_longctx.dataset.parts import Part

_LOOKED_AT = 100


class Source(Protocol):
    """Where rows come from: read as often as asked, under the ids `file:row`."""

    files: tuple[Path, ...]

    def rows(self) -> Generator[Row | RowProblem, None, None]:
        """All rows in their order, read anew."""

    def fingerprint(self) -> str:
        """64 hex digits that change with the rows."""


class FileRows:
    """Rows of files."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        self._names = display_names(files)

    def rows(self) -> Generator[Row | RowProblem, None, None]:
        """All rows, in file order."""
        return read_files(self.files, self._names)

    def fingerprint(self) -> str:
        """SHA-256 over size and bytes of each file, in order: renaming a file changes nothing."""
        digest = hashlib.sha256()
        for path in self.files:
            digest.update(f"{path.stat().st_size}:".encode())
            with path.open("rb") as stream:
                while chunk := stream.read(2**20):
                    digest.update(chunk)
        return digest.hexdigest()


class Dataset:
    """Rows of one shape. Iterating gives each row once, as a conversation or a problem, as often as asked.

    `shape` is declared or recognised ("" when no row could be read); `converted` tells that rows are in a
    form that trainers do not read as it is, and `note` says all this for a report.
    """

    def __init__(self, source: Source, section: DatasetSection) -> None:
        self._source = source
        self._columns: dict[str, str] = dict(section.columns)
        self._id = section.id
        self._slices = section.slices
        self.files = source.files
        first = self._first_rows()
        declared = section.shape != "auto"
        self.shape = str(section.shape) if declared else _recognised(first)
        parts = self.shape == "messages" and has_foreign_parts(first)
        self.converted = parts or bool(self.shape and SHAPES[self.shape].foreign)
        self.note = _note(self.shape, declared, parts)
        self._id = self._id or self._name_column(first)

    def __iter__(self) -> Iterator[Conversation | RowProblem]:
        for row in self.rows():
            yield row if isinstance(row, RowProblem) else self.convert(row)

    def at(self, places: Iterable[int]) -> Iterator[Conversation | RowProblem]:
        """The rows at rising places, counted from 0, each as a conversation or a problem."""
        wanted = iter(places)
        following = next(wanted, None)
        for place, row in enumerate(self.rows()):
            if following is None:
                return
            if place == following:
                yield row if isinstance(row, RowProblem) else self.convert(row)
                following = next(wanted, None)

    def rows(self) -> Iterator[Row | RowProblem]:
        """The rows as they lie in the files, under their ids."""
        rows = self._source.rows()
        return with_ids(rows, self._id) if self._id else rows

    def part(self, part: Part) -> Iterator[Conversation | RowProblem]:
        """The rows of a part of the files, numbered from 1 in it; their ids are not those of `rows`."""
        for row in with_numbers(read_part(self.files[part.file], part), str(part)):
            yield row if isinstance(row, RowProblem) else self.convert(row)

    def fingerprint(self) -> str:
        """A SHA-256 (64 hex digits) of the bytes of all files, or of the Hub's pinned revision."""
        return self._source.fingerprint()

    def convert(self, row: Row) -> Conversation | RowProblem:
        """One row in the dataset's shape, or what is wrong with it."""
        value = _renamed(row.value, self._columns) if self._columns else row.value
        try:
            fields = SHAPES[self.shape].convert(value)
            if self.shape in WITH_TOOLS:
                fields["tools"] = _tools(value.get("tools"))
                fields["template_kwargs"] = _template_kwargs(value.get("chat_template_kwargs"))
            if self._slices:
                fields["slice"] = _slice(row.value.get(self._slices), self._slices)
        except RowError as fault:
            return RowProblem(row.id, row.file, row.number, fault.kind, fault.message)
        return Conversation(row.id, row.file, row.number, **fields)

    def _first_rows(self) -> list[Mapping[str, Any]]:
        with closing(self._source.rows()) as rows:
            readable = (row.value for row in rows if isinstance(row, Row))
            return [_renamed(value, self._columns) for value in islice(readable, _LOOKED_AT)]

    def _name_column(self, first: list[Mapping[str, Any]]) -> str | None:
        named = self.shape == "lengths" and bool(first) and all("name" in row for row in first)
        return self._columns.get("name", "name") if named else None


def _renamed(value: dict[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """The row with the columns under the names that shapes expect; other keys stay."""
    if not columns:
        return value
    expected = {actual: name for name, actual in columns.items()}
    kept = {key: item for key, item in value.items() if key not in columns and key not in expected}
    return {**kept, **{expected[key]: item for key, item in value.items() if key in expected}}


def _recognised(rows: list[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    votes = recognise(rows).most_common(1)
    if votes:
        return votes[0][0]
    expected = "\n".join(f"  {shape.name}: {shape.keys}" for shape in SHAPES.values())
    raise DatasetError(
        f"dataset.shape auto: the rows have none of the known shapes; the first has {key_names(rows[0])}. "
        f"Expected one of\n{expected}\nSet dataset.columns to rename, as in columns: {{messages: NAME}}"
    )


def _note(shape: str, declared: bool, parts: bool) -> str:
    if not shape:
        return "no readable row"
    foreign = "value of content parts converted to text" if parts else SHAPES[shape].foreign
    return "; ".join(filter(None, (f"{'declared' if declared else 'recognised'}: {shape}", foreign)))


def _tools(value: Any) -> list[dict[str, Any]] | None:
    """Tools as a list, from a list or its JSON text; None when null or blank."""
    if type(value) is str:
        value = parse(value.encode()) if value.strip() else None
    if value is None:
        return None
    if type(value) is not list or not all(type(tool) is dict for tool in value):
        found = value.message if isinstance(value, RowError) else json_type(value)
        raise RowError("bad_tools", f"tools is {found}; expected a list of objects, or its JSON text")
    return value


def _template_kwargs(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if type(value) is not dict:
        raise RowError(
            "bad_template_kwargs", f"chat_template_kwargs is {json_type(value)}; expected an object"
        )
    return value


def _slice(value: Any, column: str) -> str | None:
    if isinstance(value, (dict, list)):
        raise RowError(
            "bad_slice", f"slices column {column!r} is {json_type(value)}; expected a text or a number"
        )
    return None if value is None else str(value)


def open_dataset(
    section: DatasetSection,
    contract: Contract,
    registered: Mapping[str, Callable[[], Iterable[Any]]] | None = None,
) -> Dataset:
    """Find the rows and recognise their shape; reads the first 100 rows. Raises `DatasetError`.

    `registered` datasets are named by `path: registered:NAME`.
    """
    patterns = [section.path] if isinstance(section.path, str) else list(section.path)
    if patterns[0].startswith("registered:"):
        return Dataset(registered_rows(patterns, registered or {}), section)
    if section.revision is not None:
        return Dataset(hub_rows(patterns, section.revision, section.split, section.config), section)
    return Dataset(FileRows(find_files(patterns, contract.resolve("."))), section)
