"""Broken trainers: faults in what an epoch delivers."""

# ruff: noqa: D103 - a mutant's name tells its fault
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.testing.mutants import Mutant, trainer_mutant, window_mutant
from pytest_longctx.tokens.sample import IGNORED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pytest_longctx.packing.audit import Delivery

    Epoch = list[Delivery]


def _targets(batch: Mapping[str, Any]) -> int:
    return int(np.count_nonzero(batch["labels"][:, 1:] != IGNORED))


@trainer_mutant("sample_conservation", batch_size=2)
def drops_the_last_batch(epoch: Epoch) -> Epoch:
    return epoch[:-1]


@trainer_mutant("sample_conservation")
def repeats_a_batch(epoch: Epoch) -> Epoch:
    return [*epoch, epoch[-1]]


@trainer_mutant("sample_conservation")
def reads_a_batch_again(epoch: Epoch) -> Epoch:
    """The number of batches stays right."""
    return [epoch[0], epoch[1], epoch[1], *epoch[3:]]


@trainer_mutant("capacity", "supervision_per_row", batch_size=3)
def flattens_its_rows_and_shows_none(epoch: Epoch) -> Epoch:
    return [delivery for delivery in epoch if delivery.batch is not None]


@trainer_mutant("target_count")
def subtracts_the_borders_twice(epoch: Epoch) -> Epoch:
    """The labels at segment starts are -100 already when the segments are subtracted from the normaliser."""
    return [
        delivery
        if delivery.batch is None
        else replace(
            delivery, normalizer=_targets(delivery.batch) - (len(delivery.batch["cu_seq_lens_q"]) - 1)
        )
        for delivery in epoch
    ]


@trainer_mutant("position_ids", "cumulative_boundaries", "sequence_indices", "mask_agrees")
def drops_the_lengths_before_the_collator(epoch: Epoch) -> Epoch:
    return [
        delivery if delivery.batch is None else replace(delivery, batch=_one_segment(delivery.batch))
        for delivery in epoch
    ]


def _one_segment(batch: Mapping[str, Any]) -> dict[str, Any]:
    size = batch["input_ids"].size
    edges = np.array([0, size], dtype=np.int32)
    return {
        **batch,
        "position_ids": np.arange(size)[None],
        "cu_seq_lens_q": edges,
        "cu_seq_lens_k": edges,
        "max_length_q": size,
        "max_length_k": size,
        "seq_idx": np.zeros((1, size), dtype=np.int32),
    }


@window_mutant("effective_window")
def keeps_its_default_limit(window: int) -> int:
    """As an SFTConfig without max_length has it, whatever the contract says."""
    return 1024


@window_mutant("effective_window")
def has_no_limit(window: int) -> None:
    return None


@window_mutant("effective_window")
def leaves_no_room_for_one_more_token(window: int) -> int:
    return window - 1


MUTANTS = tuple(value for value in vars().values() if isinstance(value, Mutant))
