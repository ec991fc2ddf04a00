"""What an audit says in the end of what it counted."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing import account
from pytest_longctx.packing.account import Audit
from pytest_longctx.testing.examples import Case
from pytest_longctx.witness import Witness


def sample(length, start=10):
    ids = list(range(start, start + length))
    return {"input_ids": ids, "labels": ids}


# Samples of 5, 3, 2 and 4 tokens: in rows of 8 first-fit decreasing puts 5 + 3, and 4 + 2.
CASE = Case([sample(5), sample(3), sample(2), sample(4)], capacity=8)


def audited(case=CASE, rows=2, packed=(0, 0, 1, 1), row_lengths=(8, 6), fragments=0):
    found = Audit(case.samples, case.expected)
    found.rows, found.fragments = rows, fragments
    found.row_lengths.extend(row_lengths)
    found.packed_row[:] = packed
    return found


def test_before_anything_came_no_sample_has_a_row():
    found = Audit(CASE.samples, CASE.expected)
    assert found.packed_row.tolist() == [-1, -1, -1, -1]
    assert found.packed_row.dtype == np.int32


def test_before_anything_came_every_count_is_zero():
    found = Audit(CASE.samples, CASE.expected)
    counts = ("batches", "rows", "row_tokens", "width_tokens", "piece_tokens", "targets", "expected_targets")
    assert [getattr(found, name) for name in (*counts, "fragments", "idle_tokens", "flattened")] == [0] * 10
    assert (found.rows_seen, found.apart, found.example) == (False, False, None)
    assert "samples=" not in repr(found)  # of a large dataset
    assert "expected=" not in repr(found)


def test_ten_thousand_offences_are_kept_and_all_are_counted():
    found = Audit(CASE.samples, CASE.expected)
    found.add("capacity", (Witness(str(number)) for number in range(10_002)))
    assert (found.counts["capacity"], len(found.witnesses["capacity"])) == (10_002, 10_000)


def test_rows_as_first_fit_fills_them():
    comparison = audited().comparison
    assert [comparison.rows, comparison.first_fit, comparison.fewest] == [2, 2, 2]
    assert "first-fit decreasing" in comparison.exactly
    assert comparison.in_order


def test_rows_of_their_own():
    comparison = audited(rows=4, packed=(0, 1, 2, 3), row_lengths=(5, 3, 2, 4)).comparison
    assert [comparison.rows, comparison.first_fit] == [4, 2]
    assert comparison.exactly == ()


@pytest.mark.parametrize(
    "keys",
    [
        {"fragments": 1},
        {"packed": (0, 0, 1, -1)},  # one that started nowhere
        {"packed": (0, 0, -1, -1)},  # as many numbers as rows, one of them for nowhere
        {"packed": (0, 0, 0, 0)},  # two packed rows flattened into one
        {"rows": 1},  # fewer packed rows than rows of batches
    ],
)
def test_where_rows_cannot_be_told_apart_nothing_is_exact(keys):
    comparison = audited(**keys).comparison
    assert comparison.exactly is None
    assert comparison.first_fit == 2


def test_a_sample_in_the_first_row_alone_is_whole():
    case = Case([sample(5)], capacity=8)
    comparison = audited(case, rows=1, packed=(0,), row_lengths=(5,)).comparison
    assert comparison.exactly == ("first-fit decreasing", "best-fit decreasing")


@pytest.mark.parametrize(
    ("row_lengths", "compared"), [((8, 6), True), ((), True), ((9, 6), False), ((6, 9), False), ((7,), True)]
)
def test_rows_beyond_the_capacity_are_not_compared(row_lengths, compared):
    assert (audited(row_lengths=row_lengths).comparison is not None) == compared


def test_samples_beyond_the_capacity_are_not_compared():
    assert audited(Case([sample(9)], capacity=8), 1, (0,), ()).comparison is None
    assert audited(Case([sample(8)], capacity=8), 1, (0,), ()).comparison is not None


def test_lost_samples_are_not_compared():
    found = audited()
    found.add("sample_conservation", [Witness("a")])
    assert found.comparison is None
    other = audited()
    other.add("capacity", [Witness("a")])
    assert other.comparison is not None


def test_without_admitted_samples_nothing_is_compared():
    assert audited(Case([sample(5)], lengths=[0]), 1, (0,), (5,)).comparison is None


def test_samples_left_out_are_not_compared():
    case = Case([sample(5), sample(3), sample(2), sample(4)], capacity=8, lengths=[5, 3, 0, 4])
    comparison = audited(case, packed=(0, 0, -1, 1)).comparison
    assert comparison.exactly[0] == "first-fit decreasing"


def test_equal_samples_stand_for_each_other():
    """Two samples of 4 equal tokens and two of 4 others: who is with whom is told by what they hold."""
    rows = [sample(4), sample(4), sample(4, 50), sample(4, 50)]
    case = Case(rows, capacity=8)
    assert audited(case, packed=(0, 0, 1, 1)).comparison.exactly
    assert audited(case, packed=(1, 1, 0, 0)).comparison.exactly
    assert not audited(case, packed=(0, 1, 0, 1)).comparison.exactly
    same = Case([sample(4)] * 4, capacity=8)
    assert audited(same, packed=(0, 1, 0, 1)).comparison.exactly


def test_samples_are_equal_as_far_as_they_are_expected():
    """The window cuts both to the same three tokens."""
    rows = [sample(3), {"input_ids": [10, 11, 12, 99], "labels": [10, 11, 12, 99]}, sample(5), sample(5, 70)]
    case = Case(rows, capacity=8, lengths=[3, 3, 5, 5])
    assert audited(case, packed=(0, 1, 1, 0), row_lengths=(8, 8)).comparison.exactly
    assert audited(case, packed=(0, 1, 0, 1), row_lengths=(8, 8)).comparison.exactly


def test_all_offences_are_counted_and_the_first_kept(monkeypatch):
    monkeypatch.setattr(account, "MOST_WITNESSES", 3)
    found = audited()
    found.add("capacity", [Witness("a"), Witness("b")])
    found.add("capacity", [Witness("c"), Witness("d"), Witness("e")])
    found.add("labels", [])
    assert found.counts == {"capacity": 5}
    assert [witness.id for witness in found.witnesses["capacity"]] == ["a", "b", "c"]
    assert found.witnesses["labels"] == []
