"""Parquet and Arrow files → rows, a small batch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_longctx.dataset.fault import RowError
from pytest_longctx.dataset.json_text import ROW_LIMIT, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow

_BATCH = 128
_BATCH_BYTES = 1 << 25


def read_columns(path: Path, groups: Sequence[int] | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (row number from 1, value or `RowError`); raises `RowError` where the file cannot be read on.

    groups: of a Parquet file, the only ones to read.
    """
    import pyarrow

    batches = _parquet(path, groups) if path.suffix.lower() == ".parquet" else _arrow(path)
    broken = (pyarrow.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError)
    try:
        if path.stat().st_size:
            yield from _rows(batches)
    except broken as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise RowError("broken_file", f"the file cannot be read on: {reason}") from error


def _rows(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[tuple[int, Any]]:
    number = 1
    for batch in batches:
        batch.validate(full=True)  # offsets that lie would read foreign memory
        decoders = [(field.name, decode) for field in batch.schema if (decode := _decoder(field.type))]
        for part in _parts(batch):
            for row in part.to_pylist():
                yield number, _decoded(row, decoders)
                number += 1


def _parts(batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    """Few rows at a time, and fewer of large ones: Python's objects take several times their size."""
    step = _BATCH
    if batch.nbytes > _BATCH_BYTES:
        step = max(1, min(_BATCH, _BATCH_BYTES * len(batch) // batch.nbytes))
    for start in range(0, len(batch), step):
        part = batch.slice(start, step)
        if step == 1 and part.nbytes > ROW_LIMIT:
            raise RowError("row_too_long", f"longer than {ROW_LIMIT:,} bytes; the file is read no further")
        yield part


def _decoded(row: dict[str, Any], decoders: list[tuple[str, Callable[[Any], Any]]]) -> Any:
    try:
        for name, decode in decoders:
            row[name] = decode(row[name])
    except RowError as fault:
        return fault
    return row


def _parquet(path: Path, groups: Sequence[int] | None) -> Iterator[pyarrow.RecordBatch]:
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False) as file:
        yield from file.iter_batches(batch_size=_BATCH, row_groups=groups)


def _arrow(path: Path) -> Iterator[pyarrow.RecordBatch]:
    """Both formats: the stream that Hugging Face datasets writes, and the file (Feather 2)."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as source:
        magic = source.read(6)
        source.seek(0)
        if magic == b"ARROW1":
            with pyarrow.ipc.open_file(source) as file:
                yield from (file.get_batch(index) for index in range(file.num_record_batches))
        else:
            with pyarrow.ipc.open_stream(source) as stream:
                yield from stream


def _decoder(kind: pyarrow.DataType) -> Callable[[Any], Any] | None:
    """What turns the JSON texts in a column (`Json()` features in Hugging Face datasets) into values."""
    from pyarrow import types

    if getattr(kind, "extension_name", "") == "arrow.json":
        return _json
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        element = _decoder(kind.value_type)
        return element and (lambda values: values and [element(value) for value in values])
    if types.is_struct(kind):
        fields = [(field.name, decode) for field in kind if (decode := _decoder(field.type))]
        return _struct_decoder(fields) if fields else None
    return None


def _struct_decoder(fields: list[tuple[str, Callable[[Any], Any]]]) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        return value and {**value, **{name: decode_field(value[name]) for name, decode_field in fields}}

    return decode


def _json(text: str | None) -> Any:
    value = None if text is None else parse(text.encode())
    if isinstance(value, RowError):
        raise value
    return value
