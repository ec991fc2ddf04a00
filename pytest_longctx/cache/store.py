"""Entries in a folder of packs, found by key."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.cache.key import KEY_BYTES, row_key
from pytest_longctx.cache.pack import SUFFIX, DamagedPackError, Pack, pack_bytes, write_pack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from pytest_longctx.dataset import Conversation
    from pytest_longctx.tokens.entry import Entry

PACK_BYTES = 1 << 24  # of tokens in one pack: what a killed run loses
_NO_KEY = bytes(KEY_BYTES)


class Store:
    """What is known under one settings key. Memory holds 24 bytes an entry; entries lie on disk.

    Damaged packs are removed. `problem` tells why new entries are no longer kept, "" as long as they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problem = ""
        self.written: list[str] = []
        self._keys: list[bytes] = []
        self._entries: list[Entry] = []
        self._bytes = 0
        self.reload()

    def reload(self) -> None:
        """Look at the packs in the folder anew."""
        self._packs = [pack for path in sorted(self.folder.glob(f"*{SUFFIX}")) if (pack := _opened(path))]
        self._starts = np.cumsum([0, *map(len, self._packs)])
        keys = np.concatenate([_halves(pack.keys.tobytes()) for pack in self._packs] or [_halves(b"")])
        self._order = np.argsort(keys[:, 0], kind="stable")
        self._sorted = keys[self._order]
        self._used: set[int] = set()

    def find(self, conversations: Sequence[Conversation]) -> tuple[list[bytes | None], list[Entry | None]]:
        """A key per row, None where it cannot have one; and its entry, None where it is not known."""
        keys = [row_key(conversation) for conversation in conversations]
        places = self._places(keys)
        packs = np.searchsorted(self._starts, places, side="right") - 1
        self._used.update(np.unique(packs[places >= 0]).tolist())
        inside = places - self._starts[packs]
        found = zip(packs.tolist(), inside.tolist(), (places >= 0).tolist(), strict=True)
        return keys, [self._packs[pack].entry(place) if known else None for pack, place, known in found]

    def missing(self, conversations: Sequence[Conversation]) -> int:
        """How many rows could be known, and are not."""
        keys = [key for conversation in conversations if (key := row_key(conversation))]
        return int(np.count_nonzero(self._places(keys) < 0))

    def _places(self, keys: Sequence[bytes | None]) -> NDArray[np.int64]:
        """int64, where each key's entry lies over all packs, -1 where there is none."""
        wanted = _halves(b"".join(key or _NO_KEY for key in keys))
        if not len(self._order):
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self._sorted[:, 0], wanted[:, 0]), len(self._order) - 1)
        return np.where((self._sorted[at] == wanted).all(axis=1), self._order[at], -1)

    def add(self, key: bytes, entry: Entry) -> None:
        """Keep a new entry; it is on disk with the next pack."""
        if self.problem:
            return
        self._keys.append(key)
        self._entries.append(entry)
        self._bytes += entry.ids.nbytes + entry.kind.nbytes
        if self._bytes >= PACK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is not on disk yet; where that fails, no more is kept."""
        keys, entries = self._keys, self._entries
        self._keys, self._entries, self._bytes = [], [], 0
        if not keys or self.problem:
            return
        try:
            self.written.append(write_pack(self.folder, pack_bytes(keys, entries)).name)
        except OSError as error:
            self.problem = error.strerror or str(error)

    def touch(self) -> None:
        """Mark the packs that were of use, for the next eviction."""
        for pack in self._used:
            try:
                os.utime(self._packs[pack].path)
            except OSError:  # another run removed it, or the folder is read-only
                continue


def _halves(keys: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(keys, dtype="<u8").reshape(-1, 2)


def _opened(path: Path) -> Pack | None:
    """The pack, or None where it is gone or damaged; a damaged one is removed."""
    try:
        return Pack(path)
    except OSError:
        return None
    except DamagedPackError:
        try:
            path.unlink(missing_ok=True)
        except OSError:  # read-only: it stays, and is never trusted
            return None
        return None
