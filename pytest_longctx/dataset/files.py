"""Which files a dataset consists of."""

from __future__ import annotations

import difflib
import glob
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_longctx.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TEXT_SUFFIXES = (".jsonl", ".ndjson", ".json")
COLUMN_SUFFIXES = (".parquet", ".arrow")
PACKED_SUFFIXES = (".gz", ".zst")
SUFFIXES = (
    *TEXT_SUFFIXES,
    *COLUMN_SUFFIXES,
    *(text + packed for text in TEXT_SUFFIXES for packed in PACKED_SUFFIXES),
)

# `Dataset.save_to_disk` of Hugging Face datasets leaves these beside the rows.
_NOT_ROWS = frozenset({"dataset_info.json", "dataset_dict.json", "state.json"})

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)


def find_files(patterns: Sequence[str], folder: Path) -> tuple[Path, ...]:
    """The files that the patterns name: patterns in their order, files sorted within each, each file once.

    A pattern is a file, a folder (with all below it, hidden names left out) or a glob, relative to `folder`.
    Raises `DatasetError` when a pattern finds nothing, or finds something that is not a regular file.
    """
    found: dict[str, Path] = {}
    for pattern in patterns:
        for path in _matches(pattern, folder):
            found.setdefault(os.path.realpath(path), path)
    return tuple(found.values())


def display_names(files: Sequence[Path]) -> tuple[str, ...]:
    """A name per file: its base name, or as many of its last folders as tell it from the other files."""
    names = [path.name for path in files]
    depth = 1
    while len(set(names)) < len(names):
        depth += 1
        twice = {name for name in names if names.count(name) > 1}
        names = [
            "/".join(path.parts[-depth:]) if name in twice else name
            for path, name in zip(files, names, strict=True)
        ]
    return tuple(names)


def _matches(pattern: str, folder: Path) -> list[Path]:
    place = Path(os.path.abspath(folder / pattern))  # noqa: PTH100  # links stay as they are named
    if os.path.lexists(place):
        paths = _inside(place) if place.is_dir() else [_readable(place)]
    else:
        paths = _globbed(place)
    if not paths:
        raise DatasetError(_nothing(pattern, folder, place))
    return paths


def _inside(folder: Path) -> list[Path]:
    return [_regular(path) for path in sorted(_walk(folder)) if _is_data(path)]


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in names if not name.startswith("."))


def _globbed(place: Path) -> list[Path]:
    paths = (Path(path) for path in sorted(glob.glob(str(place), recursive=True)))  # noqa: PTH207  # absolute
    return [_regular(path) for path in paths if _is_data(path) and not path.is_dir()]


def _is_data(path: Path) -> bool:
    name = path.name
    cached = name.startswith("cache-") and name.endswith(".arrow")
    return name.lower().endswith(SUFFIXES) and name not in _NOT_ROWS and not cached


def _readable(path: Path) -> Path:
    _regular(path)
    if not path.name.lower().endswith(SUFFIXES):
        raise DatasetError(f"{path}: cannot read this kind of file; expected one of {', '.join(SUFFIXES)}")
    return path


def _regular(path: Path) -> Path:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}; expected a regular file or a link to one") from error
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "not a file")
        raise DatasetError(f"{path}: is {kind}; expected a regular file or a link to one")
    return path


def _nothing(pattern: str, folder: Path, place: Path) -> str:
    seen = "" if Path(pattern).is_absolute() else f", seen from {folder}"
    text = f"dataset.path {pattern!r}: no such file{seen}"
    if place.is_dir():
        return f"{text}: the folder holds no file that ends in {', '.join(SUFFIXES)}"
    parent = next(parent for parent in place.parents if parent.is_dir())
    near = _near(place.relative_to(parent).parts[0], (entry.name for entry in _entries(parent)))
    if not near:
        return f"{text}; {parent} is empty"
    return f"{text}; {parent} holds {', '.join(near)}"


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _near(wanted: str, names: Iterable[str], count: int = 5) -> list[str]:
    """Up to `count` names, the nearest first; a mark when there are more."""
    ranked = sorted(names, key=lambda name: (-difflib.SequenceMatcher(None, wanted, name).ratio(), name))
    return ranked[:count] + ["…"] * (len(ranked) > count)
