"""Lower bounds: how few bins can possibly hold the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.lengths import count_lengths
from pytest_longctx.packing.reference import checked_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_longctx.lengths import IntArray


def minimum_rows(lengths: Sequence[int] | IntArray, capacity: int) -> int:
    """Return the lower bound L2 of Martello and Toth (1990) on the rows of `capacity` tokens.

    Samples over half the capacity need a row each. Of these, the ones of more than capacity - t tokens cannot
    share it with a sample of t tokens or more, for any threshold t ≤ capacity / 2. So what the samples from t
    to capacity / 2 have beyond the room beside the other large ones needs rows of its own. The bound is the
    best over all t; t = 0 makes it at least ceil(tokens / capacity). Lengths as for `first_fit_decreasing`;
    0 when there are none.
    """
    values, counts = count_lengths(checked_lengths(lengths, capacity))
    if not values.size:
        return 0
    samples = np.concatenate([[0], np.cumsum(counts)])
    tokens = np.concatenate([[0], np.cumsum(counts * values)])
    half = int(
        np.searchsorted(values, capacity // 2, side="right")
    )  # values[half:] are over half the capacity
    thresholds = np.concatenate([[0], values[:half]])
    from_threshold = np.searchsorted(values, thresholds)
    up_to_complement = np.searchsorted(values, capacity - thresholds, side="right")
    small_tokens = tokens[half] - tokens[from_threshold]
    large_samples = samples[up_to_complement] - samples[half]
    large_tokens = tokens[up_to_complement] - tokens[half]
    overflow = small_tokens - (large_samples * capacity - large_tokens)
    extra_rows = np.maximum(0, -(-overflow // capacity))
    return int(samples[-1] - samples[half] + extra_rows.max())
