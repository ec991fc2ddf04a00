"""The ledger: what each sample is made of, in columns; and the samples' tokens, on disk."""

from __future__ import annotations

import tempfile
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_longctx.tokens.columns import Repeated, Texts
from pytest_longctx.tokens.sample import PROMPT, TEMPLATE

if TYPE_CHECKING:
    from typing import IO

    from numpy.typing import NDArray

    from pytest_longctx.tokens.entry import Entry


_COLUMNS = ("template", "prompt", "supervised", "answer", "total")


@dataclass(frozen=True)
class Ledger:
    """Per sample, n in all: tokens of each kind, and where the supervised spans lie.

    template, prompt, supervised, answer, total: int32[n] tokens. turns: int32[m, 2], supervised spans of all
    samples; turn_offsets: int64[n+1]. slices: each sample's value of the slice column, "" where it has none.
    """

    ids: Texts
    slices: Repeated
    template: NDArray[np.int32]
    prompt: NDArray[np.int32]
    supervised: NDArray[np.int32]
    answer: NDArray[np.int32]
    total: NDArray[np.int32]
    turns: NDArray[np.int32]
    turn_offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.total)

    @property
    def tail(self) -> NDArray[np.int32]:
        """int32[n, 2], the last supervised span; (0, 0) where there is none."""
        tail = np.zeros((len(self), 2), dtype=np.int32)
        filled = np.diff(self.turn_offsets) > 0
        tail[filled] = self.turns[self.turn_offsets[1:][filled] - 1]
        return tail

    def select(self, index: NDArray[np.int64]) -> Ledger:
        """The ledger of some samples, in the order of `index`."""
        counts = np.diff(self.turn_offsets)[index]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(self.turn_offsets[index] - offsets[:-1], counts) + np.arange(int(offsets[-1]))
        return Ledger(
            ids=self.ids.select(index),
            slices=self.slices.select(index),
            turns=self.turns[places],
            turn_offsets=offsets,
            **{name: getattr(self, name)[index] for name in _COLUMNS},
        )


class Tokens(NamedTuple):
    """The tokens of one sample, or of all of them: ids and labels int32[T], kind uint8[T]."""

    ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    kind: NDArray[np.uint8]


class Samples:
    """The tokens of all samples, memory-mapped from temporary files that go with this object.

    ids, labels: int32[T]; kind: uint8[T]; offsets: int64[n+1].
    """

    def __init__(self, tokens: Tokens, ledger: Ledger) -> None:
        self.ledger = ledger
        self.offsets = np.concatenate([[0], np.cumsum(ledger.total, dtype=np.int64)])
        self.ids, self.labels, self.kind = tokens

    def __len__(self) -> int:
        return len(self.ledger)

    def __getitem__(self, index: int) -> Tokens:
        span = slice(self.offsets[index], self.offsets[index + 1])
        return Tokens(self.ids[span], self.labels[span], self.kind[span])


def _map(file: IO[bytes], dtype: type[Any]) -> NDArray[Any]:
    file.flush()
    return np.memmap(file, dtype=dtype, mode="r") if file.tell() else np.empty(0, dtype=dtype)


class SampleWriter:
    """Takes samples one by one; memory holds the ledger's columns only."""

    def __init__(self) -> None:
        # Without a name: they are gone with the process, however it ends.
        self._files: list[IO[bytes]] = [
            tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the writer
            for _ in Tokens._fields
        ]
        self._columns = {name: array("i") for name in _COLUMNS}
        self._turns, self._turn_counts = array("i"), array("i")
        self._ids, self._slices = Texts(), Repeated()

    def add(self, name: str, slice_: str | None, entry: Entry) -> None:
        """Append one sample."""
        columns: tuple[NDArray[Any], ...] = (entry.ids, entry.labels, entry.kind)
        for file, column in zip(self._files, columns, strict=True):
            file.write(column.data)
        turns = entry.turns.tolist()
        self._ids.append(name)
        self._slices.append(slice_ or "")
        self._count(np.bincount(entry.kind, minlength=3).tolist(), entry.answer)
        self._turns.extend(turns)
        self._turn_counts.append(len(turns) // 2)

    def add_lengths(self, name: str, prompt: int, supervised: int, slice_: str | None) -> None:
        """Append a sample of which only lengths are known: the supervised part is the tail."""
        self._ids.append(name)
        self._slices.append(slice_ or "")
        self._count([0, prompt, supervised], supervised)
        self._turns.extend([prompt, prompt + supervised])
        self._turn_counts.append(1)

    def _count(self, kinds: list[int], answer: int) -> None:
        columns = self._columns
        columns["template"].append(kinds[TEMPLATE])
        columns["prompt"].append(kinds[PROMPT])
        columns["supervised"].append(kinds[-1])
        columns["answer"].append(answer)
        columns["total"].append(sum(kinds))

    def empty(self) -> Ledger:
        """A ledger of no samples."""
        none = np.empty(0, dtype=np.int32)
        offsets = np.zeros(1, dtype=np.int64)
        return Ledger(Texts(), Repeated(), none, none, none, none, none, none.reshape(-1, 2), offsets)

    def close(self) -> Ledger:
        """The ledger of all that was added."""
        self.discard()
        return Ledger(
            ids=self._ids,
            slices=self._slices,
            turns=_column(self._turns).reshape(-1, 2),
            turn_offsets=np.concatenate([[0], np.cumsum(_column(self._turn_counts), dtype=np.int64)]),
            **{name: _column(values) for name, values in self._columns.items()},
        )

    def samples(self) -> Samples:
        """The ledger with its tokens."""
        ids, labels, kind = self._files
        tokens = Tokens(_map(ids, np.int32), _map(labels, np.int32), _map(kind, np.uint8))
        return Samples(tokens, self.close())

    def discard(self) -> None:
        """Close the files: what is mapped stays as long as it is in use."""
        for file in self._files:
            file.close()


def _column(values: array[int]) -> NDArray[np.int32]:
    """The numbers themselves, not a copy; nothing can be appended to them afterwards."""
    return np.frombuffer(values, dtype=np.int32) if values else np.empty(0, dtype=np.int32)
