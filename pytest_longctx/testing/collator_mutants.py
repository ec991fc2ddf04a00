"""Broken collators: faults in a batch."""

# ruff: noqa: D103 - a mutant's name tells its fault
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.testing.examples import EOS, PAD, WITH_ONE_TOKEN
from pytest_longctx.testing.mutants import Mutant, collator_mutant
from pytest_longctx.tokens.sample import IGNORED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Fields = dict[str, Any]

_POSITIONS = ("position_ids", "mask_agrees")
_BORDERS = ("cumulative_boundaries", "mask_agrees")
_INDICES = ("sequence_indices", "mask_agrees")


def _borders(batch: Fields) -> NDArray[np.int32]:
    borders: NDArray[np.int32] = batch["cu_seq_lens_q"].copy()
    return borders


def _with_borders(batch: Fields, borders: NDArray[Any]) -> Fields:
    return {**batch, "cu_seq_lens_q": borders, "cu_seq_lens_k": borders.copy()}


def _second_start(batch: Fields) -> int:
    """Where the second segment of a flat batch starts, or the only one's second token."""
    borders = batch["cu_seq_lens_q"]
    return int(borders[1]) if len(borders) > 2 else 1


@collator_mutant(*_POSITIONS)
def counts_positions_through_the_row(batch: Fields) -> Fields:
    return {**batch, "position_ids": np.arange(batch["input_ids"].size)[None]}


@collator_mutant("position_ids")
def starts_positions_at_one(batch: Fields) -> Fields:
    return {**batch, "position_ids": batch["position_ids"] + 1}


@collator_mutant(*_POSITIONS, case=WITH_ONE_TOKEN)
def counts_on_after_one_token(batch: Fields) -> Fields:
    """A reset that is found by a fall of the positions is missed behind a segment of one token."""
    fixed = batch["position_ids"].copy()
    lengths = np.diff(batch["cu_seq_lens_q"])
    for segment in np.flatnonzero(lengths == 1).tolist():
        start = int(batch["cu_seq_lens_q"][segment])
        fixed[0, start] = fixed[0, start - 1] + 1
    return {**batch, "position_ids": fixed}


@collator_mutant(*_POSITIONS)
def resets_positions_inside_a_sample(batch: Fields) -> Fields:
    positions = batch["position_ids"].copy()
    positions[0, 3:] = np.where(positions[0, 3:] >= 3, positions[0, 3:] - 3, positions[0, 3:])
    return {**batch, "position_ids": positions}


@collator_mutant(*_POSITIONS)
def sets_all_positions_to_zero(batch: Fields) -> Fields:
    return {**batch, "position_ids": np.zeros_like(batch["position_ids"])}


@collator_mutant("position_ids")
def gives_no_positions(batch: Fields) -> Fields:
    return {name: value for name, value in batch.items() if name != "position_ids"}


@collator_mutant(*_POSITIONS, collator="padded")
def counts_positions_beside_a_segment_mask(batch: Fields) -> Fields:
    return {**batch, "position_ids": np.arange(batch["input_ids"].shape[1])[None]}


@collator_mutant(*_BORDERS)
def moves_a_border_by_one(batch: Fields) -> Fields:
    borders = _borders(batch)
    borders[1:-1] += 1
    return _with_borders(batch, borders)


@collator_mutant(*_BORDERS)
def forgets_the_last_border(batch: Fields) -> Fields:
    return _with_borders(batch, _borders(batch)[:-1])


@collator_mutant(*_BORDERS)
def forgets_the_first_border(batch: Fields) -> Fields:
    return _with_borders(batch, _borders(batch)[1:])


@collator_mutant("cumulative_boundaries")
def gives_the_keys_other_borders(batch: Fields) -> Fields:
    return {
        **batch,
        "cu_seq_lens_k": _borders(batch)[[0, -1]] if len(_borders(batch)) > 2 else _borders(batch) + 1,
    }


@collator_mutant("varlen_fields")
def gives_borders_as_int64(batch: Fields) -> Fields:
    return _with_borders(batch, _borders(batch).astype(np.int64))


@collator_mutant("varlen_fields")
def gives_the_longest_as_an_array(batch: Fields) -> Fields:
    return {**batch, "max_length_q": np.array(batch["max_length_q"])}


@collator_mutant("varlen_fields")
def understates_the_longest(batch: Fields) -> Fields:
    return {**batch, "max_length_k": batch["max_length_k"] - 1}


@collator_mutant("varlen_fields")
def forgets_the_longest(batch: Fields) -> Fields:
    return {name: value for name, value in batch.items() if not name.startswith("max_length")}


@collator_mutant("varlen_fields")
def gives_borders_for_queries_only(batch: Fields) -> Fields:
    return {name: value for name, value in batch.items() if name != "cu_seq_lens_k"}


@collator_mutant(*_INDICES)
def gives_all_segments_one_index(batch: Fields) -> Fields:
    return {**batch, "seq_idx": np.zeros_like(batch["seq_idx"])}


@collator_mutant("sequence_indices", batch_size=3)
def numbers_segments_from_one(batch: Fields) -> Fields:
    return {**batch, "seq_idx": batch["seq_idx"] + 1}


@collator_mutant("sequence_indices", batch_size=3)
def restarts_the_indices_halfway(batch: Fields) -> Fields:
    index = batch["seq_idx"].copy()
    half = index.max() // 2
    index[index > half] -= half + 1
    return {**batch, "seq_idx": index}


@collator_mutant("mask_agrees", collator="block_mask")
def shows_one_column_of_the_segment_before(batch: Fields) -> Fields:
    mask = batch["attention_mask"].copy()
    mask[..., 0] = True
    return {**batch, "attention_mask": mask}


@collator_mutant("mask_agrees", collator="block_mask")
def shows_the_whole_row(batch: Fields) -> Fields:
    return {**batch, "attention_mask": np.tril(np.ones_like(batch["attention_mask"]))}


@collator_mutant("mask_agrees", collator="block_mask")
def shows_the_whole_row_in_lists(batch: Fields) -> Fields:
    return {**batch, "attention_mask": np.tril(np.ones_like(batch["attention_mask"])).tolist()}


@collator_mutant("mask_agrees", collator="block_mask")
def shows_the_whole_row_to_one_of_two_layer_types(batch: Fields) -> Fields:
    mask = batch["attention_mask"]
    leaks = np.tril(np.ones_like(mask)).tolist()
    return {**batch, "attention_mask": {"full_attention": mask, "sliding_attention": leaks}}


@collator_mutant("mask_agrees", collator="padded")
def hides_tokens_from_all_layer_types(batch: Fields) -> Fields:
    mask = np.where(batch["input_ids"] == EOS, 0, batch["attention_mask"])
    return {**batch, "attention_mask": {"full_attention": mask, "sliding_attention": mask}}


@collator_mutant("mask_agrees", collator="block_mask")
def shows_the_token_to_come(batch: Fields) -> Fields:
    mask = batch["attention_mask"].copy()
    mask[0, 0, 0, 1] = True
    return {**batch, "attention_mask": mask}


@collator_mutant("mask_agrees", collator="block_mask")
def hides_the_start_of_a_segment(batch: Fields) -> Fields:
    mask = batch["attention_mask"].copy()
    mask[0, 0, 2, 0] = False
    return {**batch, "attention_mask": mask}


@collator_mutant("mask_agrees", collator="block_mask")
def weakens_what_it_should_hide(batch: Fields) -> Fields:
    return {**batch, "attention_mask": np.where(batch["attention_mask"], 0.0, -10.0).astype(np.float32)}


@collator_mutant("mask_agrees", collator="block_mask")
def leaks_in_the_second_head(batch: Fields) -> Fields:
    mask = np.repeat(batch["attention_mask"], 2, axis=1)
    mask[0, 1, -1, :] = True
    return {**batch, "attention_mask": np.where(mask, 0.0, -1e9).astype(np.float32)}


@collator_mutant("mask_agrees", collator="padded")
def numbers_two_segments_alike(batch: Fields) -> Fields:
    return {**batch, "attention_mask": np.where(batch["attention_mask"] == 2, 1, batch["attention_mask"])}


@collator_mutant("mask_agrees", collator="padded")
def masks_real_tokens_as_padding(batch: Fields) -> Fields:
    return {**batch, "attention_mask": np.where(batch["input_ids"] == EOS, 0, batch["attention_mask"])}


@collator_mutant("padding_segment", "target_count", collator="padded", batch_size=3)
def trains_the_padding(batch: Fields) -> Fields:
    padding = batch["input_ids"] == PAD
    return {**batch, "labels": np.where(padding, batch["input_ids"], batch["labels"])}


@collator_mutant("padding_segment", collator="padded", batch_size=3)
def numbers_the_padding_as_a_segment(batch: Fields) -> Fields:
    mask = batch["attention_mask"]
    return {**batch, "attention_mask": np.where(mask == 0, mask.max(axis=1, keepdims=True) + 1, mask)}


@collator_mutant("padding_segment", collator="padded", batch_size=3)
def counts_the_padding_to_the_last_segment(batch: Fields) -> Fields:
    mask = batch["attention_mask"]
    return {**batch, "attention_mask": np.where(mask == 0, mask.max(axis=1, keepdims=True), mask)}


@collator_mutant("padding_segment", collator="padded", batch_size=3)
def attends_to_everything(batch: Fields) -> Fields:
    return {**batch, "attention_mask": np.ones_like(batch["attention_mask"])}


@collator_mutant("labels_preserved", "target_count")
def masks_the_end_of_turn_as_padding(batch: Fields) -> Fields:
    """Where the padding id is the end-of-turn id, masking all of them untrains the end."""
    return {**batch, "labels": np.where(batch["input_ids"] == EOS, IGNORED, batch["labels"])}


@collator_mutant("labels_preserved", "boundary_labels", "target_count", batch_size=3)
def trains_the_first_token_of_a_segment(batch: Fields) -> Fields:
    labels = batch["labels"].copy()
    start = _second_start(batch)
    labels[0, start] = batch["input_ids"][0, start]
    return {**batch, "labels": labels}


@collator_mutant("labels_preserved")
def shifts_the_labels_for_the_model(batch: Fields) -> Fields:
    """The model shifts labels itself."""
    labels = np.full_like(batch["labels"], IGNORED)
    labels[:, :-1] = batch["labels"][:, 1:]
    return {**batch, "labels": labels}


@collator_mutant("aligned_fields")
def pads_only_the_positions(batch: Fields) -> Fields:
    positions = batch["position_ids"]
    return {**batch, "position_ids": np.pad(positions, ((0, 0), (0, 8 - positions.shape[1] % 8)))}


@collator_mutant("aligned_fields")
def gives_positions_four_dimensions(batch: Fields) -> Fields:
    return {**batch, "position_ids": batch["position_ids"][None, None]}


@collator_mutant("aligned_fields", collator="padded")
def pads_all_but_the_labels(batch: Fields) -> Fields:
    width = -batch["input_ids"].shape[1] % 8 + 8
    return {
        name: value if name == "labels" else np.pad(value, ((0, 0), (0, width)))
        for name, value in batch.items()
    }


@collator_mutant("sample_conservation", collator="padded")
def cuts_the_last_column(batch: Fields) -> Fields:
    return {name: value[:, :-1] for name, value in batch.items()}


@collator_mutant("index_range", "sample_conservation", "target_count", collator="padded")
def adds_a_token_outside_the_vocabulary(batch: Fields) -> Fields:
    added = {"input_ids": 60_000, "labels": 60_000, "position_ids": 0, "attention_mask": 9}
    return {
        name: np.pad(value, ((0, 0), (0, 1)), constant_values=added[name]) for name, value in batch.items()
    }


MUTANTS = tuple(value for value in vars().values() if isinstance(value, Mutant))
