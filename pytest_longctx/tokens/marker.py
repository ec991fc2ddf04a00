"""Response markers, looked for on token ids as the trainers that mask by marker do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def occurrences(ids: NDArray[np.int32], marker: NDArray[np.int32]) -> NDArray[np.int64]:
    """The positions at which `marker` starts in `ids`."""
    if not 0 < len(marker) <= len(ids):
        return np.empty(0, dtype=np.int64)
    starts = np.flatnonzero(ids[: len(ids) - len(marker) + 1] == marker[0])
    for place in range(1, len(marker)):
        starts = starts[ids[starts + place] == marker[place]]
    return starts


def marked_spans(ids: NDArray[np.int32], markers: Sequence[NDArray[np.int32]]) -> NDArray[np.int64]:
    """Supervised spans by marker, int64[k, 2].

    One marker: all behind its last occurrence, the rule of TRL's former DataCollatorForCompletionOnlyLM. Two
    (instruction, response): behind each response marker up to the next instruction marker, or the end; the
    rule of Unsloth's train_on_responses_only, and of that collator where the two markers alternate.
    """
    response = markers[-1]
    starts = occurrences(ids, response) + len(response)
    if len(markers) == 1:
        starts = starts[-1:]
        return np.stack([starts, np.full_like(starts, len(ids))], axis=1)
    stops = np.append(occurrences(ids, markers[0]), len(ids))
    ends = stops[np.searchsorted(stops, starts)]
    first = np.diff(ends, prepend=-1) > 0  # a response marker inside an answer opens nothing new
    return np.stack([starts, ends], axis=1)[first]
