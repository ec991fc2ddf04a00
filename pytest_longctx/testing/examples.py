"""Samples, reference pipeline and flat collator that packers and collators are tried on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.dataset import Conversation
from pytest_longctx.packing.admitted import Admitted
from pytest_longctx.packing.audit import Expected
from pytest_longctx.packing.collators import segment_lengths
from pytest_longctx.tokens.entry import entry_of
from pytest_longctx.tokens.ledger import SampleWriter
from pytest_longctx.tokens.sample import IGNORED, tokenized_sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_longctx.tokens.ledger import Samples

PAD, BOS, EOS = 0, 1, 2
CAPACITY = 24
VOCABULARY = 50_000


def conversation(number: int, tokens: int) -> dict[str, list[int]]:
    """A sample of ids no other number has, between BOS and EOS; its second half is the answer."""
    ids = (
        [BOS, *(100 * number + place for place in range(1, tokens - 1)), EOS]
        if tokens > 2
        else [100 * number]
    )
    return {"input_ids": ids, "labels": [IGNORED] * (len(ids) // 2) + ids[len(ids) // 2 :]}


@dataclass(frozen=True)
class Case:
    """Samples and what a packer is to make of them.

    rows: mappings with `input_ids` and `labels`. lengths: tokens that should come of each, all by default;
    fewer where the window cuts a sample, 0 where it rejects it.
    """

    rows: Sequence[Mapping[str, Any]]
    capacity: int = CAPACITY
    lengths: Sequence[int] | None = None
    pad_token_id: int = PAD
    vocabulary: int | None = None
    batch_size: int = 1
    names: Sequence[str] = field(default=())

    @cached_property
    def samples(self) -> Samples:
        """The samples as the engine holds them."""
        writer = SampleWriter()
        names = self.names or [f"sample {number}" for number in range(len(self.rows))]
        for number, (name, row) in enumerate(zip(names, self.rows, strict=True), 1):
            ids, labels = (np.asarray(row[column], dtype=np.int32) for column in ("input_ids", "labels"))
            sample = tokenized_sample(Conversation(name, "", number, input_ids=ids, labels=labels))  # type: ignore[arg-type]
            writer.add(name, None, entry_of(sample))
        return writer.samples()

    @property
    def expected(self) -> Expected:
        """What should be delivered."""
        total = np.diff(self.samples.offsets)
        lengths = total if self.lengths is None else np.asarray(self.lengths, dtype=np.int64)
        return Expected(
            lengths,
            lengths > 0,
            self.capacity,
            self.batch_size,
            vocabulary=self.vocabulary,
            pad_token_id=self.pad_token_id,
        )

    @property
    def admitted(self) -> Admitted:
        """The samples that a packer is given."""
        return Admitted(self.samples, self.expected.lengths)


_SIZES = (9, 7, 12, 5, 8, 6, 11, 4, 10, 5, 7, 30, 40, 6, 6)
# Sample 11 is cut by the window, sample 12 rejected; samples 13 and 14 are equal.
_ROWS = [conversation(number if number < 14 else 13, size) for number, size in enumerate(_SIZES, 1)]
_ROWS[-1] = _ROWS[-2]
_LENGTHS = [24 if size == 30 else 0 if size == 40 else size for size in _SIZES]

EXAMPLE = Case(_ROWS, lengths=_LENGTHS, vocabulary=VOCABULARY)
"""Fifteen samples: one that the window cuts, one that it rejects, two that are equal."""

WITH_ONE_TOKEN = Case([*_ROWS, conversation(90, 1)], lengths=[*_LENGTHS, 1], vocabulary=VOCABULARY)
"""The same with a sample of one token, which no row may hold alone, since nothing is predicted in it."""


def flat(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All rows as one without padding, as TRL's padding-free collator has it, in numpy."""
    ids, labels = (
        np.concatenate([np.asarray(row[name]) for row in rows])[None] for name in ("input_ids", "labels")
    )
    lengths = np.array([length for row in rows for length in segment_lengths(row)])
    ends = np.cumsum(lengths)
    starts = ends - lengths
    labels[0, starts] = IGNORED
    edges = np.append(0, ends).astype(np.int32)
    return {
        "input_ids": ids,
        "labels": labels,
        "position_ids": (np.arange(ids.size) - np.repeat(starts, lengths))[None],
        "cu_seq_lens_q": edges,
        "cu_seq_lens_k": edges.copy(),
        "max_length_q": int(lengths.max()),
        "max_length_k": int(lengths.max()),
        "seq_idx": np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[None],
    }
