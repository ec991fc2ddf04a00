"""The folder of all entries: one writer per settings at a time, and a bound on its size."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_longctx.cache.pack import SUFFIX, UNFINISHED
from pytest_longctx.cache.store import Store
from pytest_longctx.progress import unheard
from pytest_longctx.settings import CACHE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LOCK = ".lock"
PATIENCE = 10.0  # seconds of waiting before one is told what for


@dataclass(frozen=True)
class CacheFolder:
    """Entries below `path`, least recently used ones removed beyond `most_bytes`.

    tell: who hears why the folder cannot be used; a run goes on without it.
    """

    path: Path
    most_bytes: int = CACHE_BYTES
    tell: Callable[[str], None] = unheard

    @contextmanager
    def store(self, settings: str) -> Iterator[Store | None]:
        """What is known under a settings key, for this process alone; None where the folder cannot be used.

        Who comes later waits, and then finds the entries: two runs never measure the same rows.
        """
        with ExitStack() as stack:
            try:
                place = self.path / settings
                place.mkdir(parents=True, exist_ok=True)
                stack.callback(self._lock(place))
                self._clean(place)
                store = Store(place)
            except OSError as error:
                self.tell(f"the cache {self.path} is not used: {error.strerror or error}")
                yield None
                return
            try:
                yield store
            finally:
                store.flush()
                store.touch()
                self._evict()
                if store.problem:
                    self.tell(f"the cache {self.path} could not keep all rows: {store.problem}")

    def _lock(self, place: Path) -> Callable[[], None]:
        """Take a folder's lock; what is returned gives it back. For a process that dies, the system does."""
        from filelock import FileLock, Timeout

        lock = FileLock(place / _LOCK)
        try:
            lock.acquire(timeout=PATIENCE)
        except Timeout:
            self.tell(f"waiting for another run that measures the same rows into {place}")
            lock.acquire()
        return lock.release

    def _clean(self, place: Path) -> None:
        for path in place.glob(f"*{UNFINISHED}"):
            with suppress(OSError):
                path.unlink()

    def _evict(self) -> None:
        """Remove the packs that were of use longest ago until the rest fits."""
        found = []
        for path in self.path.glob(f"*/*{SUFFIX}"):
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        size = sum(bytes_ for _, bytes_, _ in found)
        for _, bytes_, path in sorted(found):
            if size <= self.most_bytes:
                return
            with suppress(OSError):
                path.unlink()
                size -= bytes_
