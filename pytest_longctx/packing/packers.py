"""Shipped packers: the references, and TRL's own behind the same call."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import import_extra
from pytest_longctx.packing.arrow import arrow_rows, write_arrow
from pytest_longctx.packing.reference import best_fit_decreasing, first_fit_decreasing
from pytest_longctx.packing.undisturbed import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pytest_longctx.packing.admitted import Admitted
    from pytest_longctx.packing.reference import Packing

    Row = Mapping[str, Any]
    Packer = Callable[[Sequence[Row], int], Iterable[Row]]


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
    with _folder() as folder:
        file = Path(folder, "samples.arrow")
        write_arrow(samples, file)
        dataset = datasets.Dataset.from_file(str(file))
        with undisturbed():
            packed = trl.pack_dataset(dataset, max_tokens_per_bin, strategy, dict(map_kwargs))
        yield from arrow_rows(packed)


@contextmanager
def _folder() -> Iterator[str]:
    """A temporary folder; unlike `tempfile`'s own it does not warn when a packer is left midway."""
    folder = tempfile.mkdtemp(prefix="longctx-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
