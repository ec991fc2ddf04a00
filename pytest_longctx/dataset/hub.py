"""Rows of a dataset on the Hugging Face Hub, streamed at a pinned revision."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from pytest_longctx.dataset.rows import with_numbers
from pytest_longctx.errors import DatasetError, import_extra, reason

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from pytest_longctx.dataset.rows import Row, RowProblem


class HubRows:
    """Rows of one split; their ids are `split:row`. Code in the repository is never run."""

    files: tuple[Path, ...] = ()

    def __init__(self, path: str, revision: str, split: str, name: str | None = None) -> None:
        self.path = path
        self.revision = revision
        self.split = split
        self.name = name

    def rows(self) -> Generator[Row | RowProblem, None, None]:
        """All rows, streamed anew."""
        return with_numbers(self._load(), self.split)

    def fingerprint(self) -> str:
        """SHA-256 over what names the rows: they are pinned by the revision."""
        named = "\0".join((self.path, self.name or "", self.revision, self.split))
        return hashlib.sha256(named.encode()).hexdigest()

    def _load(self) -> Iterator[tuple[int, Any]]:
        datasets = import_extra("datasets", "hub", f"dataset {self.path} on the Hub")
        try:
            rows = datasets.load_dataset(
                self.path, name=self.name, revision=self.revision, split=self.split, streaming=True
            )
            yield from enumerate(rows, 1)
        except Exception as error:  # network stacks raise types of their own, which change between releases
            raise DatasetError(self._unreachable(error)) from error

    def _unreachable(self, error: Exception) -> str:
        text = next(iter(reason(error).splitlines()), type(error).__name__)
        return (
            f"dataset {self.path} (revision {self.revision}, split {self.split}) "
            f"cannot be read from the Hub: {text}\n"
            "Check the id, the revision and the network, or download it and give dataset.path as a folder"
        )


def hub_rows(paths: Sequence[str], revision: str, split: str | None, name: str | None = None) -> HubRows:
    """The rows that a contract names by Hub id, revision and split."""
    if len(paths) != 1:
        raise DatasetError(f"dataset.path: {len(paths)} paths with a revision; expected one Hub id")
    if split is None:
        raise DatasetError(
            f"dataset.split is missing: a Hub id ({paths[0]}) needs a split, as in split: train"
        )
    return HubRows(paths[0], revision, split, name)
