"""A file of entries: Arrow columns, one row an entry, named by its own hash."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from pytest_longctx.cache.key import KEY_BYTES
from pytest_longctx.tokens.entry import Entry
from pytest_longctx.tokens.sample import IGNORED, SUPERVISED
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

SUFFIX = ".arrow"
UNFINISHED = ".unfinished"


class DamagedPackError(Exception):
    """The file is not the one that was written under its name."""


def pack_bytes(keys: Sequence[bytes], entries: Sequence[Entry]) -> bytes:
    """The content of a pack: the entries, and the keys under which they are found."""
    import pyarrow as pa

    unlike = [not np.array_equal(entry.labels, _labels(entry.ids, entry.kind)) for entry in entries]
    columns = {
        "key": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(KEY_BYTES), len(keys), [None, pa.py_buffer(b"".join(keys))]
        ),
        "ids": _lists([entry.ids for entry in entries], np.int32),
        "kind": _lists([entry.kind for entry in entries], np.uint8),
        "labels": _lists(
            [e.labels if other else e.ids[:0] for e, other in zip(entries, unlike, strict=True)], np.int32
        ),
        "turns": _lists([entry.turns for entry in entries], np.int32),
        "answer": pa.array([entry.answer for entry in entries], pa.int32()),
        "offences": pa.array([_written(entry) for entry in entries], pa.binary()),
    }
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def pack_name(content: bytes) -> str:
    """The only name under which this content is read again."""
    return hashlib.sha256(content).hexdigest()[:40] + SUFFIX


def write_pack(folder: Path, content: bytes) -> Path:
    """Put a pack into a folder, whole or not at all."""
    path = folder / pack_name(content)
    unfinished = path.with_suffix(f".{os.getpid()}{UNFINISHED}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return path


class Pack:
    """A pack, memory-mapped. keys: bytes[n], each of 16.

    Raises:
        DamagedPackError: the content has another hash than the file's name.
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.path = path
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256") if _HAS_DIGEST else _digest(stream)
        if not path.name.startswith(found.hexdigest()[:40]):
            raise DamagedPackError(path.name)
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            batch = file.get_batch(0)
        self.keys: NDArray[np.void] = np.frombuffer(batch["key"].buffers()[1], f"V{KEY_BYTES}", len(batch))
        self._lists = {name: _spans(batch[name]) for name in ("ids", "kind", "labels", "turns")}
        self._answer: NDArray[np.int32] = batch["answer"].to_numpy()
        self._offences = batch["offences"]
        self._offends: NDArray[np.bool_] = self._offences.is_valid().to_numpy(zero_copy_only=False)

    def __len__(self) -> int:
        return len(self.keys)

    def entry(self, place: int) -> Entry:
        """The entry at a place."""
        ids, kind, labels, turns = (
            values[offsets[place] : offsets[place + 1]] for offsets, values in self._lists.values()
        )
        if len(labels) < len(ids):
            labels = _labels(ids, kind)
        offences = _read(self._offences[place].as_py()) if self._offends[place] else ()
        return Entry(ids, labels, kind, int(self._answer[place]), turns, offences)


_HAS_DIGEST = hasattr(hashlib, "file_digest")  # Python 3.11


def _digest(stream: Any) -> Any:
    digest = hashlib.sha256()
    while chunk := stream.read(2**20):
        digest.update(chunk)
    return digest


def _labels(ids: NDArray[np.int32], kind: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Labels of rows with a text; only rows that bring their own have others."""
    return np.where(kind == SUPERVISED, ids, np.int32(IGNORED))


def _lists(arrays: Sequence[NDArray[Any]], dtype: type[Any]) -> Any:
    import pyarrow as pa

    offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
    values = np.concatenate(arrays) if arrays else np.empty(0, dtype)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values.astype(dtype, copy=False)))


def _spans(column: Any) -> tuple[list[int], NDArray[Any]]:
    return column.offsets.to_numpy().tolist(), column.values.to_numpy()


def _written(entry: Entry) -> bytes | None:
    if not entry.offences:
        return None
    return orjson.dumps([[check, {**asdict(witness), "id": ""}] for check, witness in entry.offences])


def _read(offences: bytes) -> list[tuple[str, Witness]]:
    found: Iterable[tuple[str, dict[str, Any]]] = orjson.loads(offences)
    return [(check, Witness(**witness)) for check, witness in found]
