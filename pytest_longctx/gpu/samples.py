"""Samples of given lengths, and the batches that padding and packing make of them, audited as all are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.gpu.record import Layout
from pytest_longctx.gpu.workload import PADDING, prompt_tokens
from pytest_longctx.packing.admitted import Admitted
from pytest_longctx.packing.audit import Delivery, Expected, audit
from pytest_longctx.packing.batch import read_row
from pytest_longctx.packing.collators import block_mask, padded
from pytest_longctx.packing.packers import joined, one_a_row
from pytest_longctx.tokens.entry import Entry
from pytest_longctx.tokens.ledger import SampleWriter
from pytest_longctx.tokens.sample import IGNORED, PROMPT, SUPERVISED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pytest_longctx.tokens.ledger import Samples

SHOWN = 5
PADDING_ID = 0  # no sample holds it


@dataclass(frozen=True)
class ArmBatch:
    """One arm's packed rows and the batch made of them, as numpy arrays (rows, tokens)."""

    name: str
    attention: str
    rows: list[dict[str, Any]]
    fields: Mapping[str, Any]


def random_rows(rows: int, length: int, vocabulary: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """A batch of rows without padding where every token but the first is a target: int64[rows, length]."""
    ids = np.random.default_rng((seed, length)).integers(0, vocabulary, (rows, length), dtype=np.int64)
    return {"input_ids": ids, "labels": ids}


def draw_samples(lengths: Sequence[int], copies: int, vocabulary: int, seed: int) -> Samples:
    """`copies` times samples of these lengths, of random ids; the first quarter of each is its prompt."""
    random = np.random.default_rng(seed)
    writer = SampleWriter()
    for number, length in enumerate([*lengths] * copies):
        ids = random.integers(PADDING_ID + 1, vocabulary, length, dtype=np.int32)
        writer.add(f"sample {number}", None, _entry(ids))
    return writer.samples()


def _entry(ids: NDArray[np.int32]) -> Entry:
    prompt = prompt_tokens(len(ids))
    labels = ids.copy()
    labels[:prompt] = IGNORED
    kind = np.full(len(ids), SUPERVISED, dtype=np.uint8)
    kind[:prompt] = PROMPT
    turns = np.array([prompt, len(ids)], dtype=np.int32)
    return Entry(ids, labels, kind, len(ids) - prompt, turns)


def arm_batch(name: str, attention: str, samples: Samples, copies: int) -> ArmBatch:
    """The batch of one arm, in the dialect that its attention implementation reads.

    Padding: one sample a row. Packing: one row for each copy of the samples, or one row for all with the
    variable-length kernels.
    """
    admitted = Admitted(samples, samples.ledger.total.astype(np.int64))
    if name == PADDING:
        rows = [dict(row) for row in one_a_row(admitted, 0)]
        return ArmBatch(name, attention, rows, padded(rows, PADDING_ID))
    each = len(admitted) if attention.startswith("flash") else len(admitted) // copies
    places = range(len(admitted))
    rows = [dict(joined(admitted, places[start : start + each])) for start in places[::each]]
    return ArmBatch(name, attention, rows, _packed(rows, attention))


def _packed(rows: list[dict[str, Any]], attention: str) -> dict[str, Any]:
    fields = block_mask(rows)
    if attention in ("eager", "sdpa"):
        return fields
    del fields["attention_mask"]  # flex attention makes its mask from the positions
    if attention.startswith("flash"):
        lengths = rows[0]["seq_lengths"]
        borders = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        fields |= {"cu_seq_lens_q": borders, "cu_seq_lens_k": borders}
        fields |= {"max_length_q": max(lengths), "max_length_k": max(lengths)}
    return fields


def check_layout(arm: ArmBatch, samples: Samples, vocabulary: int) -> Layout:
    """What the arm's batch holds and every offence against the packing invariants."""
    lengths = samples.ledger.total.astype(np.int64)
    fed = np.ones(len(lengths), dtype=np.bool_)
    expected = Expected(lengths, fed, int(lengths.sum()), len(arm.rows), vocabulary, pad_token_id=PADDING_ID)
    maker = f"the {arm.name} arm"
    rows = [read_row(row, maker, number) for number, row in enumerate(arm.rows)]
    found = audit([Delivery(rows, arm.fields)], samples, expected, maker)
    offences = {name: count for name, count in sorted(found.counts.items()) if count}
    witnesses = (
        {
            "arm": arm.name,
            "check": name,
            "id": w.id,
            "position": w.position,
            "expected": w.expected,
            "found": w.found,
        }
        for name in offences
        for w in found.witnesses[name]
    )
    return Layout(
        name=arm.name,
        rows=found.batches,
        processed_tokens=found.width_tokens,
        padding_tokens=found.width_tokens - found.piece_tokens,
        supervised_tokens=found.targets,
        offences=offences,
        witnesses=tuple(islice(witnesses, SHOWN)),
    )
