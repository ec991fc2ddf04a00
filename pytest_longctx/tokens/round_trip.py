"""The rows as the trainers' own loader hands them on, beside the rows as they lie in the files."""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.dataset import Conversation, Row, RowProblem
from pytest_longctx.errors import import_extra
from pytest_longctx.tokens.second_look import ROWS, SecondLook, spread
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_longctx.dataset import Dataset
    from pytest_longctx.tokens.sample import Sample, Sampler

# The JSON reader of datasets takes a file in blocks of this many bytes, and infers types from the first.
FIRST_BLOCK = 10 << 20
LATE_ROWS = 16
_PACKED = 8  # text is taken to shrink to no less than this part
# Messages of datasets and pyarrow that name types alone; others quote values of rows.
_OF_TYPES = ("Couldn't cast array of type ", "Unsupported cast from ")
_WITHIN_TYPES = re.compile(r"[<{\[].*[>}\]]")  # the names of fields are keys of objects within rows
_MOST_REASON = 200
_BUILDERS = {".parquet": "parquet", ".arrow": "arrow"}


class LoaderRefusal(Exception):  # noqa: N818 - not an error of this program: the trainer's loader says no
    """`load_dataset` cannot read the files; its text says why, and quotes no row."""


def arrow_round_trip(
    dataset: Dataset, rows: int, sampler: Sampler, *, exhaustive: bool = False
) -> SecondLook:
    """Whether rows have the same ids and labels from the file and from `datasets.load_dataset`.

    Looks at an even spread of the rows and, per file, at some behind its first 10 MB.

    Args:
        rows: the number of rows that the dataset has.

    Raises:
        MissingExtraError: datasets is not installed.
    """
    look = SecondLook()
    if not dataset.files:
        look.unlocked_by = "rows of the Hub come from this loader already; rows of files can be judged"
        return look
    datasets = import_extra("datasets", "hub", "dataset::arrow_round_trip")
    with _folder() as folder:
        try:
            loaded = load_files(datasets, dataset.files, folder)
        except LoaderRefusal as refusal:
            return SecondLook(refused=str(refusal))
        if len(loaded) != rows:
            note = f"load_dataset gives {len(loaded):,} rows, the files have {rows:,}"
            look.add(Witness(dataset.files[0].name, rows, len(loaded), note=note))
            return look
        chosen = spread(rows, rows) if exhaustive else chosen_rows(dataset, rows)
        for row, number in _numbered(dataset, chosen):
            value = loaded[number]
            both = [dataset.convert(row), dataset.convert(Row(row.id, row.file, row.number, value))]
            look.add(_difference(both, sampler))
    return look


@contextmanager
def _folder() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="longctx-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def load_files(datasets: Any, files: Iterable[Path], folder: Path) -> Any:
    """What `load_dataset` makes of the files; its caches go to `folder`."""
    names = [str(path) for path in files]
    kind = "." + names[0].removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]
    quiet = datasets.utils.logging
    level, bars = quiet.get_verbosity(), datasets.are_progress_bars_disabled()
    quiet.set_verbosity(logging.CRITICAL + 1)  # its lines quote values of rows
    datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(
            _BUILDERS.get(kind, "json"), data_files=names, split="train", cache_dir=str(folder)
        )
    # A loader refuses files with exceptions of many libraries.
    except Exception as error:
        raise LoaderRefusal(_reason(error.__cause__ or error, datasets)) from error
    finally:
        quiet.set_verbosity(level)
        if not bars:
            datasets.enable_progress_bars()


def _reason(error: BaseException, datasets: Any) -> str:
    """Why a loader refuses files, without a word of their rows: columns, types, or the error's name alone."""
    if isinstance(error, datasets.table.CastError):  # its text lists every column first
        return f"other columns: {error.details()}"[:_MOST_REASON]
    text = " ".join(str(error).split())
    if text.startswith(_OF_TYPES):
        return _WITHIN_TYPES.sub("<…>", text)[:_MOST_REASON]
    return f"{type(error).__name__}, whose text may quote rows: call load_dataset on them to read it"


def chosen_rows(dataset: Dataset, rows: int) -> frozenset[int]:
    """Numbers of the rows to look at, counted from 0 over all files: all where they are few."""
    late = [place for path in dataset.files for place in _late(path)]
    if rows <= ROWS or not late:
        return spread(rows, ROWS)
    counts: dict[str, int] = {}
    for row in dataset.rows():
        counts[row.file] = counts.get(row.file, 0) + (row.number > 0)
    found, before = set(spread(rows, ROWS)), 0
    for path, count in zip(dataset.files, counts.values(), strict=False):
        found.update(before + int(share * (count - 1)) for share in _late(path))
        before += count
    return frozenset(number for number in found if number < rows)


def _late(path: Path) -> list[float]:
    """Places behind the first block of a file, as shares of the file: its end, and evenly up to it."""
    size = path.stat().st_size * (_PACKED if path.suffix in (".gz", ".zst") else 1)
    if size <= FIRST_BLOCK or path.suffix in _BUILDERS:
        return []
    return [float(place) for place in np.linspace(1.0, FIRST_BLOCK / size, LATE_ROWS, endpoint=False)]


def _numbered(dataset: Dataset, chosen: frozenset[int]) -> Iterator[tuple[Row, int]]:
    """The chosen rows with their numbers; a problem of a whole file is no row."""
    rows = (row for row in dataset.rows() if row.number > 0)
    for number, row in enumerate(rows):
        if number in chosen and isinstance(row, Row):
            yield row, number


def _difference(both: list[Conversation | RowProblem], sampler: Sampler) -> Witness | None:
    # The words of a row tell 1, 1.0 and True apart, and the order of keys.
    if repr(both[0]) == repr(both[1]):
        return None
    made = [_made(item, sampler) for item in both]
    first, second = made
    name = both[0].id
    if isinstance(first, RowProblem):
        return None
    if isinstance(second, RowProblem):
        return Witness(name, "the same ids", "no sample", note=f"from the loader: {second.message}")
    if np.array_equal(first.ids, second.ids) and np.array_equal(first.labels, second.labels):
        return None
    size = min(len(first.ids), len(second.ids))
    same = (first.ids[:size] == second.ids[:size]) & (first.labels[:size] == second.labels[:size])
    position = int(np.argmin(same)) if not same.all() else size
    found = f"{len(second.ids):,} tokens, other ones from here on"
    return Witness(name, f"{len(first.ids):,} tokens", found, position=position)


def _made(item: Conversation | RowProblem, sampler: Sampler) -> Sample | RowProblem:
    return sampler.sample(item) if isinstance(item, Conversation) else item
