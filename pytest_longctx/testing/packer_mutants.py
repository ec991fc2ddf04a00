"""Broken packers: faults in the packed rows."""

# ruff: noqa: D103 - a mutant's name tells its fault
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.testing.examples import EXAMPLE, conversation
from pytest_longctx.testing.mutants import Mutant, packer_mutant
from pytest_longctx.tokens.sample import IGNORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, Any]
    Rows = list[Row]

# Sample numbers of EXAMPLE by what they are; 1 and 10 have seven tokens each.
SEVEN, SEVEN_TOO, CUT, REJECTED = 1, 10, 11, 12
ALL_DIALECTS = ("position_ids", "cumulative_boundaries", "sequence_indices", "mask_agrees")


def segments(row: Row) -> Rows:
    """The samples of a packed row."""
    edges = np.cumsum(row["seq_lengths"])[:-1]
    columns = (np.split(np.asarray(row[name]), edges) for name in ("input_ids", "labels"))
    return [{"input_ids": ids.copy(), "labels": labels.copy()} for ids, labels in zip(*columns, strict=True)]


def row_of(parts: Sequence[Row]) -> Row:
    """A packed row of some samples."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in ("input_ids", "labels")}
    return {**columns, "seq_lengths": [len(part["input_ids"]) for part in parts]}


def place_of(rows: Rows, sample: int) -> tuple[int, int]:
    """Row and segment of a sample of EXAMPLE."""
    ids = EXAMPLE.admitted[int(np.flatnonzero(np.flatnonzero(EXAMPLE.expected.lengths) == sample)[0])][
        "input_ids"
    ]
    for number, row in enumerate(rows):
        for place, part in enumerate(segments(row)):
            if np.array_equal(part["input_ids"], ids):
                return number, place
    raise AssertionError(f"sample {sample} is in no row")


def edit(rows: Rows, sample: int, *replacement: Row) -> Rows:
    """The rows with other segments in a sample's place; a row without segments goes."""
    number, place = place_of(rows, sample)
    parts = segments(rows[number])
    parts[place : place + 1] = replacement
    return [*rows[:number], *([row_of(parts)] if parts else []), *rows[number + 1 :]]


def get(rows: Rows, sample: int) -> Row:
    """A sample of EXAMPLE as it stands in its row."""
    number, place = place_of(rows, sample)
    return segments(rows[number])[place]


def part(sample: Row, start: int, end: int | None = None) -> Row:
    """Some tokens of a sample."""
    return {name: column[start:end] for name, column in sample.items()}


@packer_mutant("sample_conservation")
def drops_a_sample(rows: Rows) -> Rows:
    return edit(rows, SEVEN)


@packer_mutant("sample_conservation")
def loses_the_last_row(rows: Rows) -> Rows:
    return rows[:-1]


@packer_mutant("sample_conservation")
def repeats_a_sample(rows: Rows) -> Rows:
    return [*rows, row_of([get(rows, SEVEN)])]


@packer_mutant("sample_conservation")
def repeats_one_for_another(rows: Rows) -> Rows:
    return edit(rows, SEVEN_TOO, get(rows, SEVEN))


@packer_mutant("sample_conservation")
def reads_a_slice_again(rows: Rows) -> Rows:
    return [*rows[:2], *rows[:2], *rows[4:]]


@packer_mutant("sample_conservation")
def cuts_the_last_token(rows: Rows) -> Rows:
    return edit(rows, SEVEN, part(get(rows, SEVEN), 0, -1))


@packer_mutant("sample_conservation")
def cuts_more_than_planned(rows: Rows) -> Rows:
    return edit(rows, CUT, part(get(rows, CUT), 0, 20))


@packer_mutant("sample_conservation", "capacity")
def does_not_cut(rows: Rows) -> Rows:
    return edit(rows, CUT, conversation(CUT + 1, 30))


@packer_mutant("sample_conservation")
def delivers_a_rejected_sample(rows: Rows) -> Rows:
    return [*rows, row_of([part(conversation(REJECTED + 1, 40), 0, 24)])]


@packer_mutant("sample_conservation", "target_count")
def delivers_a_foreign_sample(rows: Rows) -> Rows:
    return [*rows, row_of([conversation(300, 6)])]


@packer_mutant("orphan_fragments", "target_count")
def splits_an_answer(rows: Rows) -> Rows:
    sample = get(rows, SEVEN)
    return [*edit(rows, SEVEN, part(sample, 0, 5)), row_of([part(sample, 5)])]


@packer_mutant("orphan_fragments", "supervision_per_row")
def splits_the_prompt_off(rows: Rows) -> Rows:
    sample = get(rows, SEVEN)
    return [*edit(rows, SEVEN), row_of([part(sample, 0, 2)]), row_of([part(sample, 2)])]


@packer_mutant("token_order")
def swaps_two_tokens(rows: Rows) -> Rows:
    return edit(rows, SEVEN, part_order(get(rows, SEVEN), [0, 1, 2, 3, 5, 4, 6]))


def part_order(sample: Row, order: list[int]) -> Row:
    """A sample's tokens, each with its label, in another order."""
    return {name: column[order] for name, column in sample.items()}


@packer_mutant("labels_preserved")
def swaps_two_labels(rows: Rows) -> Rows:
    sample = get(rows, SEVEN)
    return edit(rows, SEVEN, {**sample, "labels": sample["labels"][[0, 1, 2, 3, 5, 4, 6]]})


@packer_mutant("labels_preserved")
def shifts_labels_left(rows: Rows) -> Rows:
    return [{**row, "labels": np.roll(row["labels"], -1)} for row in rows]


@packer_mutant("labels_preserved", "target_count")
def shifts_labels_right(rows: Rows) -> Rows:
    return [{**row, "labels": np.roll(row["labels"], 1)} for row in rows]


@packer_mutant("labels_preserved")
def takes_the_labels_of_another_sample(rows: Rows) -> Rows:
    return edit(rows, SEVEN, {**get(rows, SEVEN), "labels": get(rows, SEVEN_TOO)["labels"]})


@packer_mutant("labels_preserved", "target_count")
def trains_the_prompts(rows: Rows) -> Rows:
    return [{**row, "labels": row["input_ids"].copy()} for row in rows]


@packer_mutant("labels_preserved", "target_count", "supervision_per_row")
def masks_a_row(rows: Rows) -> Rows:
    return [*rows[:-1], {**rows[-1], "labels": np.full_like(rows[-1]["labels"], IGNORED)}]


@packer_mutant("capacity")
def fills_a_row_beyond_its_capacity(rows: Rows) -> Rows:
    return [row_of([*segments(rows[0]), *segments(rows[-1])]), *rows[1:-1]]


@packer_mutant(*ALL_DIALECTS)
def says_two_samples_are_one(rows: Rows) -> Rows:
    number, place = place_of(rows, SEVEN)
    lengths = list(rows[number]["seq_lengths"])
    place = max(place, 1)
    lengths[place - 1 : place + 1] = [sum(lengths[place - 1 : place + 1])]
    return [{**row, "seq_lengths": lengths} if at == number else row for at, row in enumerate(rows)]


@packer_mutant(*ALL_DIALECTS, "labels_preserved", "target_count")
def says_one_sample_is_two(rows: Rows) -> Rows:
    number, place = place_of(rows, SEVEN)
    lengths = list(rows[number]["seq_lengths"])
    lengths[place : place + 1] = [4, 3]
    return [{**row, "seq_lengths": lengths} if at == number else row for at, row in enumerate(rows)]


@packer_mutant(*ALL_DIALECTS)
def does_not_say_the_lengths(rows: Rows) -> Rows:
    return [{name: row[name] for name in ("input_ids", "labels")} for row in rows]


MUTANTS = tuple(value for value in vars().values() if isinstance(value, Mutant))
