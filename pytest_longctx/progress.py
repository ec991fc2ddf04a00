"""Progress of long work, for whoever watches: the engine hands its iterators over and prints nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

T = TypeVar("T")

DELAY = 1.0  # seconds before a bar shows: most work is done by then
PERIOD = 30.0  # seconds between two lines


class Watch(Protocol):
    """Hands the same items on, and tells how many of `what` have come."""

    def __call__(self, items: Iterable[T], what: str) -> Iterable[T]:
        """The items, watched."""


class Stream(Protocol):
    """Where bars and lines go."""

    def write(self, text: str, /) -> object:
        """Write text as it is."""

    def flush(self) -> object:
        """Show it."""


def silent(items: Iterable[T], what: str) -> Iterable[T]:
    """Nobody watches."""
    return items


def unheard(message: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Bars:
    """A bar of tqdm that goes when the work is done, for terminals."""

    stream: Stream
    columns: int = 80

    def __call__(self, items: Iterable[T], what: str) -> Iterator[T]:
        """The items, under a bar."""
        from tqdm import tqdm

        bar: Any = tqdm(
            items, what, file=self.stream, ncols=self.columns, delay=DELAY, leave=False, unit=f" {what}"
        )
        yield from bar


@dataclass(frozen=True)
class Lines:
    """A line now and then, for logs of CI."""

    stream: Stream
    clock: Callable[[], float] = time.monotonic

    def __call__(self, items: Iterable[T], what: str) -> Iterator[T]:
        """The items, and every thirty seconds a line on how many there were."""
        start = told = self.clock()
        for count, item in enumerate(items, 1):
            yield item
            now = self.clock()
            if now - told >= PERIOD:
                told = now
                self.stream.write(f"longctx: {count:,} {what} in {now - start:,.0f} s\n")
                self.stream.flush()


def in_ci(environ: Mapping[str, str]) -> bool:
    """Whether this is a run of continuous integration, by the variable that all of them set."""
    return environ.get("CI", "").lower() not in ("", "0", "false")


def watching(stream: Stream, environ: Mapping[str, str], *, terminal: bool, columns: int = 80) -> Watch:
    """Bars on a terminal, lines in CI; nothing where output goes to a file that they would fill."""
    if in_ci(environ):
        return Lines(stream)
    return Bars(stream, columns) if terminal else silent
