"""Parts of a dataset's files: a byte range of lines, row groups of Parquet, or a whole file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pytest_longctx.dataset.columnar import read_columns
from pytest_longctx.dataset.files import COLUMN_SUFFIXES
from pytest_longctx.dataset.json_text import read_json, read_lines, stands_in_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the file at place `file` of a dataset, in one piece.

    Lines that begin in bytes [start, stop), or row groups [start, stop) of a Parquet file; `stop` None: all.
    """

    file: int
    start: int = 0
    stop: int | None = None

    def __str__(self) -> str:
        return "the whole file" if self.stop is None else f"part {self.start:,} to {self.stop:,}"


def split(files: Sequence[Path], size: int) -> list[Part]:
    """Parts of all files in their order, of about `size` bytes each where a file can be divided."""
    return [part for place, path in enumerate(files) for part in _split(place, path, size)]


def _split(place: int, path: Path, size: int) -> Iterator[Part]:
    if path.suffix.lower() == ".parquet":
        stops = _group_stops(path, size)
    else:
        stops = _line_stops(path, size) if stands_in_lines(path) else []
    if len(stops) < 2:
        yield Part(place)
        return
    start = 0
    for stop in stops:
        yield Part(place, start, stop)
        start = stop


def _line_stops(path: Path, size: int) -> list[int]:
    """Where lines end, about every `size` bytes."""
    stops: list[int] = []
    total = path.stat().st_size
    with path.open("rb") as stream:
        while not stops or stops[-1] < total:
            stream.seek((stops[-1] if stops else 0) + size - 1)
            stream.readline()
            stops.append(min(stream.tell(), total))
    return stops


def _group_stops(path: Path, size: int) -> list[int]:
    import pyarrow
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(path)
    except (pyarrow.ArrowException, OSError):
        return []  # the pass over the rows tells what is wrong with the file
    stops: list[int] = []
    filled = 0
    for group in range(metadata.num_row_groups):
        filled += metadata.row_group(group).total_byte_size
        if filled >= size or group == metadata.num_row_groups - 1:
            stops.append(group + 1)
            filled = 0
    return stops


def read_part(path: Path, part: Part) -> Iterator[tuple[int, Any]]:
    """The values of a part, numbered from 1 in it; raises `RowError` where the file cannot be read on."""
    if path.suffix.lower() in COLUMN_SUFFIXES:
        groups = None if part.stop is None else range(part.start, part.stop)
        return read_columns(path, cast("Sequence[int] | None", groups))
    return read_json(path) if part.stop is None else read_lines(path, part.start, part.stop)
