"""Shipped packers: the references, and TRL's own behind the same call."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import import_extra
from pytest_longctx.packing.reference import best_fit_decreasing, first_fit_decreasing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pytest_longctx.packing.admitted import Admitted
    from pytest_longctx.packing.reference import Packing

    Row = Mapping[str, Any]
    Packer = Callable[[Sequence[Row], int], Iterable[Row]]

BLOCK_TOKENS = 1 << 22


def joined(samples: Sequence[Row], chosen: Sequence[int]) -> Row:
    """A packed row of some samples: `input_ids`, `labels` int64, and `seq_lengths`."""
    parts = [samples[index] for index in chosen]
    row: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]) for name in ("input_ids", "labels")
    }
    row["seq_lengths"] = [len(part["input_ids"]) for part in parts]
    return row


def _reference(
    plan: Callable[[NDArray[np.int64], int], Packing], samples: Admitted, max_tokens_per_bin: int
) -> Iterator[Row]:
    offsets, order = plan(samples.lengths, max_tokens_per_bin).rows()
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield joined(samples, order[start:end].tolist())


def one_a_row(samples: Sequence[Row], max_tokens_per_bin: int) -> Iterator[Row]:
    """No packing."""
    return (joined(samples, [index]) for index in range(len(samples)))


def _trl(
    strategy: str, map_kwargs: Mapping[str, Any], samples: Admitted, max_tokens_per_bin: int
) -> Iterator[Row]:
    """TRL's own `pack_dataset`, on an Arrow file in a temporary folder, where its caches go as well."""
    trl = import_extra("trl", "trl", f"packing.packer: trl_{strategy}")
    datasets = import_extra("datasets", "trl", f"packing.packer: trl_{strategy}")
    with tempfile.TemporaryDirectory(prefix="longctx-", ignore_cleanup_errors=True) as folder:
        file = Path(folder, "samples.arrow")
        write_arrow(samples, file)
        dataset = datasets.Dataset.from_file(str(file))
        with quiet(datasets):
            packed = trl.pack_dataset(dataset, max_tokens_per_bin, strategy, dict(map_kwargs))
        yield from _arrow_rows(packed)


def write_arrow(samples: Admitted, file: Path) -> None:
    """The samples as an Arrow stream of `input_ids` and `labels`, block by block."""
    import pyarrow as pa

    schema = pa.schema({"input_ids": pa.list_(pa.int32()), "labels": pa.list_(pa.int32())})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for offsets, columns in samples.blocks(BLOCK_TOKENS):
            edges = pa.array(offsets.astype(np.int32))
            lists = [pa.ListArray.from_arrays(edges, pa.array(columns[name])) for name in schema.names]
            writer.write_batch(pa.record_batch(lists, schema=schema))


def _arrow_rows(dataset: Any) -> Iterator[Row]:
    for table in dataset.with_format("arrow").iter(batch_size=64):
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        for index in range(table.num_rows):
            row: dict[str, Any] = {
                name: columns[name][index].values.to_numpy(zero_copy_only=False).astype(np.int64)
                for name in ("input_ids", "labels")
            }
            if "seq_lengths" in columns:
                row["seq_lengths"] = columns["seq_lengths"][index].as_py()
            yield row


class quiet:  # noqa: N801 - a context manager used like a function
    """No progress bars of `datasets` while a check runs."""

    def __init__(self, datasets: Any) -> None:
        self._datasets = datasets

    def __enter__(self) -> None:
        self._shown = self._datasets.is_progress_bar_enabled()
        self._datasets.disable_progress_bars()

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._datasets.enable_progress_bars()


def shipped_packers(map_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Packers by name; `map_kwargs` go to TRL's `Dataset.map`."""
    return {
        "ffd": partial(_reference, first_fit_decreasing),
        "bfd": partial(_reference, best_fit_decreasing),
        "none": one_a_row,
        "trl_bfd": partial(_trl, "bfd", map_kwargs),
        "trl_bfd_split": partial(_trl, "bfd_split", map_kwargs),
        "trl_wrapped": partial(_trl, "wrapped", map_kwargs),
    }
