"""Targets of packed rows: those that a batch has, and those that its samples have, counted by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from pytest_longctx.packing.targets import other_divisor, other_targets, targets_of_rows

OFF, ODD = -100, -101  # every label but -100 is a target, were it no id
SAMPLES = SimpleNamespace(
    # No first token of a sample is ever predicted, whatever its label is.
    labels=np.array([*(5, ODD, 6), *(ODD, 8, 9), *(3, ODD, 4, 7), *(4, 1, 1)]),
    offsets=np.array([0, 3, 6, 10, 13]),
)


def view_of(width, edges, labels, source_labels, *pieces):
    """pieces: start, end, sample, offset, whether it is in another order."""
    start, end, sample, offset, shuffled = (np.array(column) for column in zip(*pieces, strict=True))
    known = ~shuffled
    places = [place for one in pieces if not one[4] for place in range(one[0], one[1])]
    return SimpleNamespace(
        batch=SimpleNamespace(width=width),
        edges=np.array(edges),
        labels=np.array(labels),
        places=np.array(places, dtype=np.int64),
        source_labels=np.array(source_labels),
        samples=SAMPLES,
        pieces=SimpleNamespace(
            start=start, end=end, sample=sample, offset=offset, shuffled=shuffled, known=known
        ),
    )


def test_targets_of_each_row():
    """Four rows of nine: three samples; a fragment without its first token; nothing; one in another order."""
    view = view_of(
        9,
        [0, 9, 18, 27],
        [*(7, 8, 9, OFF, ODD, 6, 4, 1, 1), *(8, 9), *[OFF] * 16, *(2, 3, OFF, 4, 9), *[OFF] * 4],
        [*(ODD, 8, 9), *(5, ODD, 6), *(4, 1, 1), *(8, 9)],
        *((0, 3, 1, 0, False), (3, 6, 0, 0, False), (6, 9, 3, 0, False)),
        *((9, 11, 1, 1, False), (27, 31, 2, 0, True)),
    )
    found, wanted = targets_of_rows(view)
    assert found.tolist() == [7, 1, 0, 3]
    assert wanted.tolist() == [6, 2, 0, 3]


def test_a_sample_in_another_order_behind_the_start():
    view = view_of(6, [0], [OFF] * 6, np.empty(0, dtype=np.int64), (2, 5, 1, 0, True))
    assert [column.tolist() for column in targets_of_rows(view)] == [[0], [2]]


def test_rows_with_other_numbers_are_told_with_both():
    view = SimpleNamespace(first_row=3)
    told = [
        (one.id, one.expected, one.found, one.row)
        for one in other_targets(view, np.array([4, 1, 0, 3]), np.array([4, 2, 0, 2]))
    ]
    assert told == [("row 4", 2, 1, 4), ("row 6", 2, 3, 6)]


def test_a_divisor_is_told_of_all_rows_of_its_batch():
    witness = other_divisor(SimpleNamespace(first_row=3, edges=np.array([0, 6, 9])), 9, 8)
    assert (witness.id, witness.expected, witness.found, witness.row) == ("rows 3–5", 9, 8, None)
    alone = other_divisor(SimpleNamespace(first_row=1_000, edges=np.array([0])), 9, 8)
    assert (alone.id, alone.row, alone.note) == ("row 1000", 1_000, "the trainer's num_items_in_batch")
