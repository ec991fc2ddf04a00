"""Samples and packed rows as Arrow files, which is how `datasets` reads and gives them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.audit import grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from pytest_longctx.packing.admitted import Admitted

    Row = Mapping[str, Any]

BLOCK_TOKENS = 1 << 22
BLOCK_ROWS = 64
COLUMNS = ("input_ids", "labels", "seq_lengths")


def write_arrow(samples: Admitted, file: Path) -> None:
    """The samples as an Arrow stream of `input_ids` and `labels`, block by block."""
    import pyarrow as pa

    schema = pa.schema({"input_ids": pa.list_(pa.int32()), "labels": pa.list_(pa.int32())})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for offsets, columns in samples.blocks(BLOCK_TOKENS):
            edges = pa.array(offsets.astype(np.int32))
            lists = [pa.ListArray.from_arrays(edges, pa.array(columns[name])) for name in schema.names]
            writer.write_batch(pa.record_batch(lists, schema=schema))


def write_rows(rows: Iterable[Row], file: Path) -> None:
    """Packed rows as an Arrow stream, block by block, with `seq_lengths` where the first row has them.

    Raises:
        PackingError: there are no rows.
    """
    import pyarrow as pa

    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        raise PackingError("the packer gave no rows, expected one at least")
    names = [name for name in COLUMNS if first.get(name) is not None]
    schema = pa.schema({name: pa.list_(pa.int64()) for name in names})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for block in grouped(chain([first], iterator), BLOCK_ROWS):
            columns = [
                pa.array([np.asarray(row[name]) for row in block], schema.field(name).type) for name in names
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def arrow_rows(dataset: Any) -> Iterator[Row]:
    """The rows of a `datasets.Dataset` with `input_ids`, `labels`, and `seq_lengths` where it has them."""
    names = [name for name in COLUMNS if name in dataset.column_names]
    for table in dataset.select_columns(names).with_format("arrow").iter(batch_size=BLOCK_ROWS):
        columns = {name: table.column(name).combine_chunks() for name in names}
        for index in range(table.num_rows):
            yield {name: _numbers(column[index].values) for name, column in columns.items()}


def _numbers(values: Any) -> NDArray[Any] | None:
    """int64[L] of a list of integers; any other list as it is, for who reads the row to refuse."""
    if values is None:
        return None
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array.astype(np.int64) if array.dtype.kind in "iu" else array
