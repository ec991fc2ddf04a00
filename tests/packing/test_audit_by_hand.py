"""What an audit counts, number by number: by its proof of whole blocks, and batch by batch."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.audit import Delivery, _has_target, audit, grouped
from pytest_longctx.packing.batch import PackedRow
from pytest_longctx.packing.collators import padded
from pytest_longctx.testing.examples import Case, flat
from tests.packing.deliveries import ROWS, alone, both, packed, row_of, sample

CASE = Case(ROWS, capacity=8, batch_size=2)
FIRST, SECOND, THIRD = row_of(1, 0), row_of(2), row_of(3)


@pytest.mark.parametrize("deliver", [both, alone])
def test_padded_batches(judged, deliver):
    found = judged(deliver(FIRST, SECOND), deliver(THIRD), case=CASE)
    assert +found.counts == {}
    assert [found.batches, found.rows, found.row_tokens] == [3, 3, 8 + 4 + 2]
    assert list(found.row_lengths) == [8, 4, 2]
    assert [found.width_tokens, found.piece_tokens] == [2 * 8 + 2, 14]
    assert [found.targets, found.expected_targets, found.idle_tokens] == [8, 8, 0]
    assert [found.fragments, found.rows_seen] == [0, False]
    assert found.packed_row.tolist() == [0, 0, 1, 2]
    assert found.example.first_row == 0
    assert len(found.example.pieces.start) == 3


@pytest.mark.parametrize("deliver", [both, alone])
def test_flattened_batches(judged, deliver):
    found = judged(deliver(FIRST, SECOND, collate=flat), deliver(THIRD, collate=flat), case=CASE)
    assert +found.counts == {}
    rows = 3 if deliver is both else 2
    assert [found.batches, found.rows, found.row_tokens] == [2, rows, 14]
    assert list(found.row_lengths) == ([8, 4, 2] if deliver is both else [12, 2])
    assert [found.width_tokens, found.piece_tokens, found.targets] == [14, 14, 8]
    assert found.packed_row.tolist() == ([0, 0, 1, 2] if deliver is both else [0, 0, 0, 1])


def test_rows_alone_and_then_batches_alone(judged):
    found = judged(
        Delivery([packed(FIRST), packed(SECOND)], None), alone(FIRST, SECOND), alone(THIRD), case=CASE
    )
    assert found.rows_seen
    assert [found.rows, found.row_tokens, found.batches] == [2, 12, 3]
    assert list(found.row_lengths) == [8, 4]
    assert found.packed_row.tolist() == [0, 0, 1, 2]


def test_rows_are_numbered_over_batches_of_several_kinds(judged):
    found = judged(alone(THIRD, collate=flat), alone(SECOND), alone(FIRST), case=CASE)
    assert found.packed_row.tolist() == [2, 2, 1, 0]
    other = judged(alone(THIRD), alone(SECOND, FIRST), case=CASE)
    assert other.packed_row.tolist() == [2, 2, 1, 0]


def test_the_example_is_the_first_batch_that_packs_several(judged):
    found = judged(both(SECOND), both(THIRD), both(FIRST), case=CASE)
    assert found.example.first_row == 2
    assert found.example.pieces.start.tolist() == [0, 3]
    only = judged(both(SECOND), both(THIRD), both(row_of(0)), both(row_of(1)), case=CASE)
    assert only.example.first_row == 0
    twice = judged(both(FIRST), both(row_of(2, 3)), case=CASE)
    assert twice.example.first_row == 0


def test_rows_beyond_the_capacity(judged):
    case = Case(ROWS, capacity=7, batch_size=2)
    found = judged(both(FIRST, SECOND), both(THIRD), case=case)
    assert +found.counts == {"capacity": 1}
    (witness,) = found.witnesses["capacity"]
    assert [witness.id, witness.expected, witness.found, witness.row] == ["row 0", 7, 8, 0]
    exact = Case(ROWS, capacity=8, batch_size=2)
    assert +judged(alone(FIRST, SECOND), alone(THIRD), case=exact).counts == {}


def test_a_later_row_beyond_the_capacity_is_named(judged):
    case = Case(ROWS, capacity=7, batch_size=2)
    for deliver in (alone, both):
        found = judged(deliver(THIRD), deliver(SECOND, FIRST), case=case)
        assert [(w.id, w.found) for w in found.witnesses["capacity"]] == [("row 2", 8)]


@pytest.mark.parametrize(("capacity", "beyond"), [(5, 1), (6, 0)])
def test_a_flattened_row_may_hold_as_many_packed_rows_as_the_batch_size(judged, capacity, beyond):
    """12 tokens in one row, of two packed rows at most; the two tokens after it are within."""
    case = Case(ROWS, capacity=capacity, batch_size=2)
    found = judged(alone(FIRST, SECOND, collate=flat), alone(THIRD, collate=flat), case=case)
    assert found.counts["capacity"] == beyond


def test_rows_of_a_batch_of_several_hold_one_packed_row_each(judged):
    case = Case(ROWS, capacity=7, batch_size=2)
    found = judged(alone(FIRST, SECOND), alone(THIRD), case=case)
    assert [(w.id, w.found) for w in found.witnesses["capacity"]] == [("row 0", 8)]


@pytest.mark.parametrize(("said", "offences"), [((7, 1), 0), ((None, None), 0), ((6, 1), 1), ((8, 2), 2)])
def test_what_the_trainer_divides_by(judged, said, offences):
    first, second = said
    found = judged(both(FIRST, SECOND, normalizer=first), both(THIRD, normalizer=second), case=CASE)
    assert found.counts["target_count"] == offences
    assert [w.row for w in found.witnesses.get("target_count", [])] == [None, 2][:offences]
    if offences:
        witness = found.witnesses["target_count"][0]
        assert [witness.expected, witness.found] == [7, first]
        assert witness.id == "rows 0–1"


def test_a_row_without_a_target(judged):
    rows = [*ROWS, sample(3, 0, 50)]
    case = Case(rows, capacity=8, batch_size=2)
    idle = row_of(4, rows=rows)
    found = judged(both(FIRST, SECOND), both(THIRD, idle), case=case)
    assert +found.counts == {"supervision_per_row": 1}
    assert found.idle_tokens == 3
    assert found.witnesses["supervision_per_row"][0].row == 3
    seen = judged(
        Delivery([packed(row) for row in (FIRST, SECOND, THIRD, idle)], None),
        alone(FIRST, SECOND),
        alone(THIRD, idle),
        case=case,
    )
    assert [seen.counts["supervision_per_row"], seen.idle_tokens] == [1, 3]
    witness = seen.witnesses["supervision_per_row"][0]
    assert [witness.id, witness.expected, witness.found, witness.note] == [
        "row 3",
        "≥ 1 target",
        0,
        "sample 4",
    ]


def test_rows_without_a_target_are_counted_each(judged):
    case = Case([sample(3, 0, 10), sample(2, 0, 20), sample(1, 2, 30)], capacity=8)
    rows = [row_of(0, 1, rows=case.rows), row_of(2, rows=case.rows)]
    apart = judged(Delivery([packed(row) for row in rows], None), alone(rows[0]), alone(rows[1]), case=case)
    assert [apart.counts["supervision_per_row"], apart.idle_tokens] == [1, 5]
    assert apart.witnesses["supervision_per_row"][0].note == "sample 0, sample 1"
    single = [row_of(member, rows=case.rows) for member in range(3)]
    seen = judged(*map(alone, single), case=case)
    assert [seen.counts["supervision_per_row"], seen.idle_tokens] == [2, 5]


def test_a_row_whose_packer_tells_no_lengths(judged):
    case = Case([sample(3, 0, 10), sample(1, 2, 30)], capacity=8)
    rows = [row_of(0, rows=case.rows), row_of(1, rows=case.rows)]
    bare = [PackedRow(row["input_ids"], row["labels"], None) for row in rows]
    found = judged(Delivery(bare, None), alone(rows[0]), alone(rows[1]), case=case)
    assert found.witnesses["supervision_per_row"][0].note == "sample 0"


def test_labels_that_are_lost_behind_the_packer(judged):
    """The rows that were packed have targets, and their batch has none."""
    batch = {**padded([SECOND]), "labels": np.full((1, 4), -100)}
    rows = [packed(row) for row in (FIRST, SECOND, THIRD)]
    found = judged(Delivery(rows, None), alone(FIRST), Delivery(None, batch), alone(THIRD), case=CASE)
    assert found.counts["supervision_per_row"] == 1
    assert [found.targets, found.expected_targets, found.counts["target_count"]] == [5, 8, 1]
    assert [(w.expected, w.found, w.row) for w in found.witnesses["target_count"]] == [(3, 0, 1)]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([-100, -100, 5], True),
        ([-100, 5, -100], True),
        ([-100, 0, -100], True),
        ([5, -100, -100], False),
        ([-100, -100, -100], False),
        ([-100, 5], True),
        ([5, -100], False),
        ([5], False),
        ([], False),
    ],
)
def test_whether_a_row_trains_anything(labels, found):
    assert _has_target(np.array(labels)) is found


def test_the_first_label_of_a_sample_is_no_target(judged):
    case = Case([{"input_ids": [start, start + 1, 7], "labels": [start, start + 1, 7]} for start in (10, 20)])
    found = judged(both(row_of(0, 1, rows=case.rows)), case=case)
    assert +found.counts == {}
    assert [found.targets, found.expected_targets] == [4, 4]


def test_tokens_of_a_sample_in_another_order():
    """What a shuffled sample should train is what it has behind its first token."""
    rows = [sample(1, 2, 10), {"input_ids": [20, 21, 22, 23, 24], "labels": [20, 21, -100, 23, 24]}]
    case = Case(rows, capacity=8)
    mixed = {name: np.array(column)[[0, 2, 1, 3, 4]] for name, column in rows[1].items()}
    row = {name: np.concatenate([rows[0][name], mixed[name]]) for name in ("input_ids", "labels")}
    row["seq_lengths"] = [3, 5]
    found = audit([both(row)], case.samples, case.expected, "mine")
    assert found.counts["token_order"] == 1
    assert found.packed_row.tolist() == [0, 0]
    assert [found.targets, found.expected_targets] == [2 + 3, 2 + 3]


def test_the_first_token_of_a_row_is_no_target(judged):
    """One token with a label, alone in its row: nothing predicts it."""
    case = Case([{"input_ids": [7], "labels": [7]}], capacity=8)
    row = {"input_ids": np.array([7]), "labels": np.array([7]), "seq_lengths": [1]}
    found = judged(Delivery([packed(row)], None), alone(row), case=case)
    assert [found.counts["supervision_per_row"], found.idle_tokens] == [1, 1]


@pytest.mark.parametrize("cut", [1, 6])
def test_pieces_that_do_not_start_their_sample(cut):
    """A long sample cut in two rows: its second piece is a fragment, and starts in no row."""
    whole = sample(2, 8, 10)
    case = Case([whole, sample(1, 2, 30)], capacity=9)
    head = {name: np.array(column[:cut]) for name, column in whole.items()}
    rest = {name: np.array([*column[cut:]]) for name, column in whole.items()}
    rows = [{**part, "seq_lengths": [len(part["input_ids"])]} for part in (head, rest)]
    last = row_of(1, rows=case.rows)
    found = audit([both(row) for row in (*rows, last)], case.samples, case.expected, "mine")
    assert found.fragments == 1
    assert found.packed_row.tolist() == [0, 2]
    assert found.piece_tokens == 13


def test_nothing_delivered():
    with pytest.raises(PackingError, match="mine delivered no batch, expected the 4 samples it was given"):
        audit([], CASE.samples, CASE.expected, "mine")
    with pytest.raises(PackingError, match="mine delivered no batch"):
        audit([Delivery([packed(FIRST)], None)], CASE.samples, CASE.expected, "mine")


def test_groups():
    assert list(grouped("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(grouped("", 2)) == []
