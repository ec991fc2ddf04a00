"""Columns of texts, one a sample, in a few bytes each: a Python text alone takes fifty."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


class Texts(Sequence[str]):
    """Texts that differ, in UTF-8 one after the other, each found by where it ends."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._bytes, self._stops = bytearray(), array("q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text at the end."""
        # An id may hold half of a surrogate pair, which JSON can spell.
        self._bytes += text.encode("utf-8", "surrogatepass")
        self._stops.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._stops) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        chosen = range(len(self))[place]
        return self._text(chosen) if isinstance(chosen, int) else [self._text(each) for each in chosen]

    def _text(self, place: int) -> str:
        return self._bytes[self._stops[place] : self._stops[place + 1]].decode("utf-8", "surrogatepass")

    def select(self, index: NDArray[np.int64]) -> Texts:
        """The texts at some places, in their order."""
        return Texts(self._text(place) for place in index.tolist())


class Repeated(Sequence[str]):
    """Texts of which few differ, each as the number of its value."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._numbers: dict[str, int] = {}
        self._codes = array("i")
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text at the end."""
        self._codes.append(self._numbers.setdefault(text, len(self._numbers)))

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        values, codes = list(self._numbers), self._codes[place]
        return values[codes] if isinstance(codes, int) else [values[code] for code in codes]

    def where(self, text: str) -> NDArray[np.bool_]:
        """bool[n], true where this text stands."""
        places: NDArray[np.bool_] = self._array() == self._numbers.get(text, -1)
        return places

    def groups(self) -> dict[str, NDArray[np.bool_]]:
        """Where each text stands that occurs, in the order of the texts."""
        found = {text: self.where(text) for text in sorted(self._numbers)}
        return {text: places for text, places in found.items() if places.any()}

    def select(self, index: NDArray[np.int64]) -> Repeated:
        """The texts at some places, in their order."""
        chosen = Repeated()
        chosen._numbers = dict(self._numbers)
        chosen._codes.frombytes(self._array()[index].tobytes())
        return chosen

    def _array(self) -> NDArray[np.int32]:
        return np.frombuffer(self._codes, dtype=np.int32) if self._codes else np.empty(0, dtype=np.int32)
