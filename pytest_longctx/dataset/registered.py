"""Rows that a plugin or conftest.py gives: `path: registered:NAME`."""

from __future__ import annotations

import difflib
import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from pytest_longctx.dataset.rows import Row, RowProblem, with_numbers
from pytest_longctx.errors import DatasetError, naming

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from pathlib import Path


class RegisteredRows:
    """Rows of a registered callable; it is called anew for every reading."""

    files: tuple[Path, ...] = ()

    def __init__(self, name: str, make: Callable[[], Iterable[Any]]) -> None:
        self._name, self._make = name, make

    def rows(self) -> Generator[Row | RowProblem, None, None]:
        """All rows, under the ids `NAME:row`."""
        return with_numbers(self._numbered(), self._name)

    def _numbered(self) -> Generator[tuple[int, Any], None, None]:
        with naming(f"the dataset {self._name!r}", DatasetError):
            for number, value in enumerate(self._make(), 1):
                yield number, dict(value) if hasattr(value, "keys") else value

    def fingerprint(self) -> str:
        """SHA-256 over the rows as JSON."""
        digest = hashlib.sha256()
        for row in self.rows():
            content = orjson.dumps(row.value, default=str) if isinstance(row, Row) else row.kind.encode()
            digest.update(b"%d:" % len(content) + content)
        return digest.hexdigest()


def registered_rows(paths: Sequence[str], known: Mapping[str, Callable[[], Iterable[Any]]]) -> RegisteredRows:
    """The dataset that `registered:NAME` names.

    Raises:
        DatasetError: no plugin registered it.
    """
    name = paths[0].removeprefix("registered:")
    if len(paths) > 1:
        raise DatasetError("dataset.path: registered:NAME stands alone, found a list of paths")
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        names = ", ".join(sorted(known)) or "none"
        raise DatasetError(f"dataset.path: no dataset {name!r} is registered{hint} Registered: {names}")
    return RegisteredRows(name, known[name])
