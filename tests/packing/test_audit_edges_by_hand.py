"""Edges of what an audit counts: many targets, unusual labels, limits of rows, and which batch is shown."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.audit import Delivery, Expected, _has_target, audit
from pytest_longctx.packing.batch import PackedRow
from pytest_longctx.packing.collators import padded
from pytest_longctx.testing.examples import Case, flat
from tests.packing.deliveries import ROWS, alone, both, row_of, sample


@pytest.mark.parametrize(("said", "offences"), [(None, 0), (699, 0), (698, 1), (700, 1)])
def test_hundreds_of_targets(judged, said, offences):
    """Samples of 300 and 401 tokens, all targets but the first."""
    rows = [sample(1, 299, 1000), sample(1, 400, 2000)]
    case = Case(rows, capacity=701)
    found = judged(both(row_of(0, 1, rows=rows), normalizer=said), case=case)
    assert [found.targets, found.expected_targets] == [699, 699]
    assert +found.counts == ({"target_count": offences} if offences else {})
    told = [(w.expected, w.found) for w in found.witnesses.get("target_count", [])]
    assert told == [(699, said)] * offences


def test_any_label_but_that_of_no_target_counts(judged):
    """-101 is a mistake, but no -100; a first token is no target whatever its label."""
    rows = [{"input_ids": [10, 11], "labels": [-101, 11]}, {"input_ids": [20, 21], "labels": [-100, -101]}]
    found = judged(both(row_of(0, 1, rows=rows)), case=Case(rows, capacity=8))
    assert [found.targets, found.expected_targets, found.counts["target_count"]] == [2, 2, 0]
    assert _has_target(np.array([-100, -101, -100]))


def test_a_target_too_many_and_one_too_few(judged):
    """Two and one targets are wanted; the first token of a row is none, that of a segment would be one."""
    for place, label, found in ((0, 20, 3), (3, 40, 4), (2, -100, 2)):
        batch = padded([row_of(1, 3)])
        batch["labels"][0, place] = label
        told = judged(Delivery(None, batch), case=Case([ROWS[1], ROWS[3]], capacity=8))
        assert [told.targets, told.expected_targets] == [found, 3]
        assert told.counts["target_count"] == (found != 3)


def test_the_first_token_of_a_fragment_should_be_a_target():
    """A sample of labels alone, cut in two rows: the first token of its rest is lost as a target."""
    ids = [10, 11, 12, 13, 14, 15]
    case = Case([{"input_ids": ids, "labels": ids}], capacity=3)
    rows = [
        {"input_ids": np.array(part), "labels": np.array(part), "seq_lengths": [3]}
        for part in (ids[:3], ids[3:])
    ]
    found = audit([both(row) for row in rows], case.samples, case.expected, "mine")
    assert [found.targets, found.expected_targets] == [2 + 2, 2 + 3]
    assert [(w.row, w.expected, w.found) for w in found.witnesses["target_count"]] == [(1, 3, 2)]


def test_rows_are_numbered_over_batches_that_are_judged_and_others_that_wait(judged):
    """Padded and flattened batches in turn do not wait for each other."""
    batches = (
        alone(row_of(3), collate=flat),
        alone(row_of(2)),
        alone(row_of(1), collate=flat),
        alone(row_of(0)),
    )
    assert judged(*batches, case=Case(ROWS)).packed_row.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("label", [22, -101])
def test_a_sample_in_another_order_between_two_others(label):
    """The second sample should train what it has behind its first token, three labels."""
    rows = [
        sample(1, 2, 10),
        {"input_ids": [20, 21, 22, 23, 24], "labels": [20, 21, -100, label, 24]},
        {"input_ids": [30, 31, 32], "labels": [30, 31, 32]},
    ]
    row = row_of(0, 1, 2, rows=rows)
    order = [0, 1, 2, 3, 5, 4, 6, 7, 8, 9, 10]
    row |= {name: row[name][order] for name in ("input_ids", "labels")}
    case = Case(rows, capacity=11)
    found = audit([both(row)], case.samples, case.expected, "mine")
    assert found.counts["token_order"] == 1
    assert [found.targets, found.expected_targets] == [2 + 3 + 2, 2 + 3 + 2]


@pytest.mark.parametrize("deliver", [both, alone])
def test_a_row_may_be_as_long_as_the_capacity(judged, deliver):
    rows = [row_of(0, 1), row_of(2, 3)]  # 8 and 6 tokens
    for capacity, offences in ((8, []), (7, [(0, 7, 8)]), (5, [(0, 5, 8), (1, 5, 6)])):
        case = Case(ROWS, capacity=capacity, batch_size=2)
        found = judged(deliver(*rows), case=case)
        told = [(w.row, w.expected, w.found) for w in found.witnesses.get("capacity", [])]
        assert told == offences


@pytest.mark.parametrize(("capacity", "offences"), [(7, []), (6, [(0, 12, 14)])])
def test_a_flattened_row_is_held_against_the_capacity_of_a_batch(judged, capacity, offences):
    case = Case(ROWS, capacity=capacity, batch_size=2)
    found = judged(alone(row_of(0, 1), row_of(2, 3), collate=flat), case=case)
    told = [(w.row, w.expected, w.found) for w in found.witnesses.get("capacity", [])]
    assert told == offences


def test_batches_of_one_row_and_of_several_side_by_side(judged):
    """Where other batches keep their rows apart, one row alone is one packed row, and what is left over."""
    case = Case(ROWS, capacity=7, batch_size=2)
    for deliveries, row in (
        ([alone(row_of(3), row_of(2)), alone(row_of(0, 1))], 2),
        ([alone(row_of(0, 1)), alone(row_of(3), row_of(2))], 0),
        ([alone(row_of(3)), alone(row_of(2), row_of(0, 1))], 2),
    ):
        found = judged(*deliveries, case=case)
        assert [(w.row, w.expected, w.found) for w in found.witnesses["capacity"]] == [(row, 7, 8)]
    far = judged(alone(row_of(3), row_of(2)), alone(row_of(0, 1)), case=Case(ROWS, capacity=3, batch_size=2))
    assert [(w.row, w.expected, w.found) for w in far.witnesses["capacity"]] == [(1, 3, 4), (2, 3, 8)]
    within = Case(ROWS, capacity=8, batch_size=2)
    assert +judged(alone(row_of(0, 1)), alone(row_of(3), row_of(2)), case=within).counts == {}


@pytest.mark.parametrize("deliver", [both, alone])
def test_the_batch_that_is_shown(judged, deliver):
    """The first with two samples or more, else the first."""
    case = Case(ROWS, capacity=14)
    three, two, one = row_of(0, 1, 3), row_of(0, 1), row_of(2)
    shown = judged(deliver(one), deliver(three), case=case).example
    assert [shown.first_row, shown.pieces.start.tolist()] == [1, [0, 5, 8]]
    shown = judged(deliver(three), deliver(one), case=case).example
    assert [shown.first_row, shown.pieces.start.tolist()] == [0, [0, 5, 8]]
    rest = row_of(2, 3)
    shown = judged(deliver(two), deliver(rest), case=case).example
    assert [shown.first_row, shown.pieces.start.tolist()] == [0, [0, 5]]
    rows = [sample(1, 1, start) for start in (10, 20, 30, 40, 50)]
    five = Case(rows, capacity=14)
    deliveries = [deliver(row_of(0, 1, 2, rows=rows)), deliver(row_of(3, 4, rows=rows))]
    assert judged(*deliveries, case=five).example.first_row == 0
    assert judged(*deliveries[::-1], case=five).example.pieces.start.tolist() == [0, 2]


def test_ids_and_offsets_out_of_range(judged):
    row = row_of(3)  # ids 40 and 41
    case = Case(ROWS[3:], capacity=8)
    for vocabulary, offences in ((42, 0), (41, 1)):
        assert judged(both(row), case=case, vocabulary=vocabulary).counts["index_range"] == offences
    for stride, offences in ((2**30, 0), (2**30 + 1, 1)):
        assert judged(both(row), case=case, row_stride=stride).counts["index_range"] == offences


def test_neither_rows_nor_a_batch():
    case = Case(ROWS)
    with pytest.raises(PackingError, match="mine gave a NoneType, expected a mapping"):
        audit([Delivery(None, None)], case.samples, case.expected, "mine")


def test_what_is_expected_where_nothing_is_said():
    expected = Expected(np.array([1]), np.array([True]), 8)
    assert [expected.batch_size, expected.vocabulary, expected.row_stride] == [1, None, None]
    assert expected.pad_token_id == 0
    assert Delivery(None, {}).normalizer is None


def test_an_unknown_segment_moves_no_sample(judged):
    foreign = {"input_ids": np.array([91, 92]), "labels": np.array([-100, 92]), "seq_lengths": [2]}
    found = judged(both(row_of(0, 1)), both(foreign), case=Case(ROWS[:2], capacity=8))
    assert found.packed_row.tolist() == [0, 0]


def test_unknown_rows_have_no_names():
    """Four foreign tokens: nothing can be named, and nothing is."""
    foreign = PackedRow(np.array([91, 92, 93, 94]), np.full(4, -100), np.array([1, 1, 1, 1]))
    case = Case(ROWS)
    deliveries = [Delivery([foreign], None), both(row_of(0))]
    found = audit(deliveries, case.samples, case.expected, "mine")
    assert [(w.row, w.note) for w in found.witnesses["supervision_per_row"]] == [(0, "")]


def test_a_batch_of_no_packed_rows(judged):
    with pytest.raises(PackingError, match="mine delivered an empty list of rows, expected None"):
        judged(Delivery([], padded([row_of(0, 1)])), case=Case(ROWS[:2], capacity=8))
