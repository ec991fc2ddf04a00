"""How the rows are cut into shards, and how many processes it takes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_longctx.dataset.parts import split

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from pytest_longctx.dataset import Dataset
    from pytest_longctx.dataset.parts import Part

SHARD_BYTES = 8 << 20  # about two million tokens of text
LEAST_BYTES = 1 << 18
WORTH_BYTES = 16 << 20  # below this, processes take longer to start than they save


def shards_of(dataset: Dataset, takers: int = 1) -> list[Part]:
    """The shards of a dataset of files, in the order of the rows; of other datasets, none.

    takers: processes or nodes to share them, with some for each, so that all end at about the same time.
    """
    size = sum(path.stat().st_size for path in dataset.files)
    return split(dataset.files, min(SHARD_BYTES, max(LEAST_BYTES, size // (4 * takers))))


def jobs_of(wanted: int | None, dataset: Dataset, workers: int = 1) -> int:
    """Processes to use: as many as wanted, or where that is None, one for two cores if the data are worth it.

    One process renders the next rows while the tokenizer works on the last ones, and keeps two cores busy.

    workers: processes of this run that share the machine.
    """
    if not dataset.files:
        return 1
    if wanted is not None:
        return wanted
    size = sum(path.stat().st_size for path in dataset.files)
    return max(1, cores() // (2 * workers)) if size >= WORTH_BYTES else 1


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def place(path: Path, part: Part) -> str:
    """The file and rows of a shard, for a message."""
    if part.stop is None:
        return path.name
    if path.suffix.lower() == ".parquet":
        return f"{path.name}, row groups {part.start:,} to {part.stop - 1:,}"
    with path.open("rb") as stream:
        before = _line_ends(stream, part.start)
        inside = _line_ends(stream, part.stop - part.start)
    return f"{path.name}, lines {before + 1:,} to {before + max(inside, 1):,}"


def _line_ends(stream: BinaryIO, size: int) -> int:
    """Line ends in the next `size` bytes."""
    ends = 0
    while size > 0 and (chunk := stream.read(min(1 << 20, size))):
        ends += chunk.count(b"\n")
        size -= len(chunk)
    return ends
