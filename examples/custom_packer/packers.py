"""Two packers of one's own: next-fit, and the same with a fault that totals do not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Row = Mapping[str, Any]


def next_fit(samples: Sequence[Row], max_tokens_per_bin: int) -> Iterator[Row]:
    """Fill a row with samples in their order until the next one does not fit."""
    row: list[Row] = []
    room = max_tokens_per_bin
    for sample in samples:
        size = len(sample["input_ids"])
        if row and size > room:
            yield packed(row)
            row, room = [], max_tokens_per_bin
        row.append(sample)
        room -= size
    if row:
        yield packed(row)


def next_fit_in_shards(samples: Sequence[Row], max_tokens_per_bin: int, shard: int = 200) -> Iterator[Row]:
    """Pack shard by shard; the last row of each shard is given out only when another sample follows."""
    for start in range(0, len(samples), shard):
        rows = list(next_fit(samples[start : start + shard], max_tokens_per_bin))
        yield from rows[:-1]


def packed(samples: Sequence[Row]) -> Row:
    """One packed row; `seq_lengths` keeps its samples apart."""
    columns = {name: np.concatenate([sample[name] for sample in samples]) for name in ("input_ids", "labels")}
    return {**columns, "seq_lengths": [len(sample["input_ids"]) for sample in samples]}
