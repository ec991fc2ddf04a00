"""What may differ between sound pipelines: no check may fail on any of these."""

# ruff: noqa: D103 - a name tells what differs
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.testing.examples import PAD, WITH_ONE_TOKEN
from pytest_longctx.testing.mutants import (
    Mutant,
    collator_mutant,
    packer_mutant,
    trainer_mutant,
    window_mutant,
)
from pytest_longctx.testing.packer_mutants import row_of, segments
from pytest_longctx.tokens.sample import IGNORED

if TYPE_CHECKING:
    from pytest_longctx.packing.audit import Delivery

    Fields = dict[str, Any]
    Rows = list[dict[str, Any]]


@packer_mutant()
def shuffles_the_rows(rows: Rows) -> Rows:
    return [rows[place] for place in np.random.default_rng(0).permutation(len(rows))]


@packer_mutant(batch_size=3, collator="padded")
def turns_the_rows_around(rows: Rows) -> Rows:
    return [row_of(segments(row)[::-1]) for row in rows[::-1]]


@packer_mutant(case=WITH_ONE_TOKEN)
def packs_a_sample_of_one_token(rows: Rows) -> Rows:
    return rows


@trainer_mutant()
def shuffles_the_batches(epoch: list[Delivery]) -> list[Delivery]:
    return [epoch[0], *epoch[:0:-1]]


@collator_mutant(collator="padded", batch_size=3)
def counts_positions_through_the_padding(batch: Fields) -> Fields:
    positions = batch["position_ids"].copy()
    for row, mask in zip(positions, batch["attention_mask"], strict=True):
        size = int(np.count_nonzero(mask))
        row[size:] = row[size - 1] + np.arange(1, len(row) - size + 1)
    return {**batch, "position_ids": positions}


@collator_mutant(collator="padded", batch_size=3)
def counts_positions_of_the_padding_anew(batch: Fields) -> Fields:
    positions = batch["position_ids"].copy()
    for row, mask in zip(positions, batch["attention_mask"], strict=True):
        size = int(np.count_nonzero(mask))
        row[size:] = np.arange(len(row) - size)
    return {**batch, "position_ids": positions}


@collator_mutant(collator="padded", batch_size=3)
def pads_on_the_left(batch: Fields) -> Fields:
    turned = {name: value.copy() for name, value in batch.items()}
    for row, mask in enumerate(batch["attention_mask"]):
        shift = int(np.count_nonzero(mask == 0))
        for value in turned.values():
            value[row] = np.roll(value[row], shift)
    return turned


@collator_mutant(collator="block_mask", batch_size=3)
def lets_padding_see_itself(batch: Fields) -> Fields:
    """A query that sees nothing would give NaN."""
    mask = batch["attention_mask"].copy()
    row, column = np.nonzero(batch["input_ids"] == PAD)
    mask[row, 0, column, column] = True
    return {**batch, "attention_mask": mask}


@collator_mutant(collator="block_mask", batch_size=3)
def lets_padding_see_the_row(batch: Fields) -> Fields:
    mask = batch["attention_mask"].copy()
    row, column = np.nonzero(batch["input_ids"] == PAD)
    mask[row, 0, column, 0] = True
    return {**batch, "attention_mask": mask}


@collator_mutant(collator="block_mask")
def gives_an_additive_mask_for_each_head(batch: Fields) -> Fields:
    mask = np.where(np.repeat(batch["attention_mask"], 4, axis=1), 0.0, np.finfo(np.float32).min)
    return {**batch, "attention_mask": mask.astype(np.float32)}


@collator_mutant(collator="block_mask")
def gives_masks_by_layer_type(batch: Fields) -> Fields:
    width = batch["input_ids"].shape[1]
    near = np.subtract.outer(np.arange(width), np.arange(width)) < 3
    masks = {"sliding_attention": batch["attention_mask"] & near, "full_attention": batch["attention_mask"]}
    return {**batch, "attention_mask": masks}


@collator_mutant(collator="padded", batch_size=3)
def gives_its_mask_to_every_layer_type(batch: Fields) -> Fields:
    names = ("full_attention", "sliding_attention", "linear_attention")
    return {**batch, "attention_mask": {**dict.fromkeys(names, batch["attention_mask"]), "conv": None}}


@collator_mutant()
def gives_int32(batch: Fields) -> Fields:
    names = ("input_ids", "labels", "position_ids")
    return {**batch, **{name: batch[name].astype(np.int32) for name in names}}


@collator_mutant()
def gives_three_planes_of_positions(batch: Fields) -> Fields:
    return {**batch, "position_ids": np.repeat(batch["position_ids"][None], 3, axis=0)}


@collator_mutant(batch_size=3)
def pads_to_a_multiple_of_sixteen(batch: Fields) -> Fields:
    """As TRL's collator has it: each padding token is a segment of its own."""
    size = batch["input_ids"].size
    more = -size % 16 or 16
    fills = {"input_ids": PAD, "labels": IGNORED, "position_ids": 0}
    padded = {
        name: np.pad(batch[name], ((0, 0), (0, more)), constant_values=fill) for name, fill in fills.items()
    }
    edges = np.append(batch["cu_seq_lens_q"], np.arange(size + 1, size + more + 1)).astype(np.int32)
    index = batch["seq_idx"].max() + np.arange(1, more + 1, dtype=np.int32)
    index = np.append(batch["seq_idx"][0], index)[None]
    return {**batch, **padded, "cu_seq_lens_q": edges, "cu_seq_lens_k": edges, "seq_idx": index}


@collator_mutant(batch_size=3)
def overstates_the_longest(batch: Fields) -> Fields:
    return {**batch, "max_length_q": 64, "max_length_k": 64}


@window_mutant()
def has_the_limit_of_the_contract(window: int) -> int:
    return window


HARMLESS = tuple(value for value in vars().values() if isinstance(value, Mutant))
