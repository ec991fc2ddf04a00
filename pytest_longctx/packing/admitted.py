"""The samples that a packer is given: those the window admits, cut as planned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from pytest_longctx.tokens.ledger import Samples

NONE_ADMITTED = "no sample is admitted, expected one at least: see window::policy and dataset::rows"


class Admitted(Sequence["Mapping[str, Any]"]):
    """A lazy sequence of samples, each `{"input_ids": int64[L], "labels": int64[L]}`.

    lengths: int64[n] tokens of every sample of the dataset, 0 for those left out.
    """

    def __init__(self, samples: Samples, lengths: NDArray[np.int64]) -> None:
        self._samples = samples
        self._chosen = np.flatnonzero(lengths > 0)
        self.lengths = lengths[self._chosen]

    def __len__(self) -> int:
        return len(self._chosen)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        tokens = self._samples[int(self._chosen[index])]
        length = int(self.lengths[index])
        return {
            "input_ids": tokens.ids[:length].astype(np.int64),
            "labels": tokens.labels[:length].astype(np.int64),
        }

    def blocks(self, most_tokens: int) -> Iterator[tuple[NDArray[np.int64], dict[str, NDArray[np.int32]]]]:
        """Blocks of samples as flat columns: (offsets int64[b+1], {input_ids, labels: int32[t]})."""
        ends = np.cumsum(self.lengths)
        begin = 0
        while begin < len(self):
            base = int(ends[begin - 1]) if begin else 0
            stop = max(begin + 1, int(np.searchsorted(ends, base + most_tokens, side="right")))
            size = self.lengths[begin:stop]
            first = self._samples.offsets[self._chosen[begin:stop]]
            offsets = np.concatenate([[0], np.cumsum(size)])
            where = np.repeat(first - offsets[:-1], size) + np.arange(int(offsets[-1]))
            yield offsets, {"input_ids": self._samples.ids[where], "labels": self._samples.labels[where]}
            begin = stop
