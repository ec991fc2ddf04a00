"""What the ledger keeps of one sample: all that the pass over the rows hands on of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_longctx.dataset import Conversation
    from pytest_longctx.tokens.sample import Sample
    from pytest_longctx.witness import Witness


@dataclass(frozen=True, slots=True)
class Entry:
    """One sample in the ledger; it follows from the row's content alone, whatever its id and place.

    ids, labels: int32[T]; kind: uint8[T] of TEMPLATE, PROMPT, SUPERVISED; answer: supervised tokens from the
    message text; turns: int32[2k], begin and end of each supervised span; offences: checks with the row's
    witness against each.
    """

    ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    kind: NDArray[np.uint8]
    answer: int
    turns: NDArray[np.int32]
    offences: Sequence[tuple[str, Witness]] = ()


def entry_of(sample: Sample, offences: Sequence[tuple[str, Witness]] = ()) -> Entry:
    """The entry of a sample with what was found in it."""
    turns: NDArray[Any] = sample.turns.ravel().astype(np.int32)
    return Entry(
        sample.ids, sample.labels, sample.kind, int(np.count_nonzero(sample.answer)), turns, offences
    )


class Known(Protocol):
    """Entries of rows that were measured before, by their content."""

    def find(self, conversations: Sequence[Conversation]) -> tuple[list[bytes | None], list[Entry | None]]:
        """A key per row, None where it cannot have one; and its entry, None where it is not known."""

    def add(self, key: bytes, entry: Entry) -> None:
        """Keep a new entry."""


class NothingKnown:
    """No row was measured before, and none is kept."""

    def find(self, conversations: Sequence[Conversation]) -> tuple[list[bytes | None], list[Entry | None]]:
        """Nothing."""
        nothing = [None] * len(conversations)
        return list(nothing), list(nothing)

    def add(self, key: bytes, entry: Entry) -> None:
        """Nothing: no row has a key."""
