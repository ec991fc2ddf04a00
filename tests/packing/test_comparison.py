from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.packing.audit import Delivery, audit
from pytest_longctx.packing.collators import padded
from pytest_longctx.packing.comparison import BEST_FIT, FIRST_FIT, Comparison, compare
from pytest_longctx.packing.packers import shipped_packers
from pytest_longctx.packing.pipeline import packed_deliveries
from pytest_longctx.testing import Case
from pytest_longctx.testing.examples import flat
from tests.packing.test_testing import joined, next_fit


def of_bins(bins, lengths, capacity, same=None):
    bins = np.asarray(bins, np.int32)
    kinds = np.arange(len(bins)) if same is None else np.asarray(same)
    return compare(
        int(bins.max()) + 1, bins, np.asarray(lengths, np.int64), capacity, lambda: kinds, whole=True
    )


class TestByHand:
    # 10 opens a row with room 5, 7 one with room 8, 6 goes there and leaves 2. The 2 fits both.
    LENGTHS = (10, 7, 6, 2)

    def test_first_fit(self):
        found = of_bins([0, 1, 1, 0], self.LENGTHS, 15)
        assert found == Comparison(2, 2, 2, (FIRST_FIT,), True)
        assert found.packer == "exactly first-fit decreasing"
        assert found.certificate == "optimal"

    def test_best_fit(self):
        assert of_bins([0, 1, 1, 1], self.LENGTHS, 15).packer == "exactly best-fit decreasing"

    def test_rows_in_another_order(self):
        found = of_bins([1, 0, 0, 1], self.LENGTHS, 15)
        assert found.packer == "exactly first-fit decreasing, rows in another order"

    def test_both_where_they_agree(self):
        found = of_bins([0, 1, 1], [10, 7, 6], 15)
        assert found.packer == "exactly first-fit decreasing and best-fit decreasing"

    def test_as_many_rows_filled_otherwise(self):
        # 10 and 2 with 15 - 12 = 3 left is first-fit; 7 and 2, 10 alone and 6 alone would be three rows.
        assert of_bins([0, 0, 1, 1], [6, 6, 6, 6], 12).packer.startswith("exactly")
        found = of_bins([0, 1, 1, 0], [6, 6, 6, 6], 12)
        assert found.packer == "uses as many rows as first-fit decreasing, filled otherwise"

    def test_more_rows(self):
        # In order: 10 | 7, 6, 2 would need the rows 10 and 7 + 6 + 2 = 15; one sample a row are four.
        found = of_bins([0, 1, 2, 3], self.LENGTHS, 15)
        assert found.packer == "uses 2 rows more than first-fit decreasing"
        assert found.certificate == "within 2 rows of optimal"
        assert of_bins([0, 1, 2, 2], self.LENGTHS, 15).packer == "uses 1 row more than first-fit decreasing"

    def test_fewer_rows_than_first_fit_decreasing(self):
        # First-fit decreasing: 5 + 4, 3 + 3 + 3, and the 2 has no room; better are 5 + 3 + 2 and 4 + 3 + 3.
        found = of_bins([0, 1, 0, 1, 1, 0], [5, 4, 3, 3, 3, 2], 10)
        assert found.packer == "uses 1 row fewer than first-fit decreasing"
        assert found.certificate == "optimal"
        assert (found.rows, found.first_fit, found.fewest) == (2, 3, 2)

    def test_equal_samples_stand_for_each_other(self):
        # Four equal lengths, two a row. Sample 1 and 2 have the same tokens.
        assert of_bins([0, 1, 0, 1], [6, 6, 6, 6], 12, same=[0, 1, 1, 3]).exactly == (FIRST_FIT, BEST_FIT)
        assert of_bins([0, 1, 0, 1], [6, 6, 6, 6], 12, same=[0, 1, 1, 3]).in_order
        turned = of_bins([1, 0, 1, 0], [6, 6, 6, 6], 12, same=[0, 1, 1, 3])
        assert turned.exactly == (FIRST_FIT, BEST_FIT)
        assert not turned.in_order
        assert of_bins([0, 1, 0, 1], [6, 6, 6, 6], 12, same=[0, 1, 2, 1]).exactly == ()

    def test_rows_that_share_a_sample_with_two_rows_of_the_reference(self):
        # Both references: 9 + 1, 8, 7. Here the 1 lies beside the 7, so that the rows 7 + 1 and 9 differ.
        assert of_bins([1, 2, 0, 0], [8, 7, 1, 9], 10).exactly == (FIRST_FIT, BEST_FIT)
        found = of_bins([0, 1, 1, 2], [8, 7, 1, 9], 10)
        assert found.packer == "uses as many rows as first-fit decreasing, filled otherwise"

    def test_split_samples_are_compared_by_rows_alone(self):
        found = compare(
            2, np.array([0, 0, 1], np.int32), np.array([6, 6, 6]), 10, lambda: np.arange(3), whole=False
        )
        assert found == Comparison(2, 3, 3)
        assert found.packer == "uses 1 row fewer than first-fit decreasing"
        assert found.certificate == "below what whole samples need"
        assert Comparison(3, 3, 3).packer == "uses as many rows as first-fit decreasing"


def packed_by(packer, sizes, capacity, collator=flat, batch_size=1):
    """The comparison after an audit of samples of these lengths, each of ids of its own."""
    ends = np.cumsum(sizes)
    rows = [np.arange(end - size + 1, end + 1) for size, end in zip(sizes, ends, strict=True)]
    case = Case([{"input_ids": ids, "labels": ids} for ids in rows], capacity=capacity, batch_size=batch_size)
    parts = (packer, collator, case.admitted, capacity, batch_size)
    return audit(packed_deliveries(*parts), case.samples, case.expected, "mine").comparison


SIZES = st.integers(2, 30).flatmap(
    lambda capacity: st.tuples(st.just(capacity), st.lists(st.integers(1, capacity), min_size=1, max_size=25))
)


@settings(deadline=None, max_examples=120)
@given(SIZES, st.sampled_from([flat, padded]), st.integers(1, 3))
def test_the_references_are_exactly_themselves(drawn, collator, batch_size):
    capacity, sizes = drawn
    for name, words in (("ffd", FIRST_FIT), ("bfd", BEST_FIT)):
        found = packed_by(shipped_packers({})[name], sizes, capacity, collator, batch_size)
        assert words in found.exactly
        assert found.in_order


@settings(deadline=None, max_examples=120)
@given(SIZES)
def test_packing_in_order_is_as_far_from_first_fit_as_its_rows_say(drawn):
    capacity, sizes = drawn
    rows, room = 1, capacity
    for size in sizes:
        rows, room = (rows, room - size) if size <= room else (rows + 1, capacity - size)
    found = packed_by(next_fit, sizes, capacity)
    assert found.rows == rows
    more, beyond = rows - found.first_fit, rows - found.fewest
    if more > 0:
        assert found.packer == f"uses {more} row{'s' * (more > 1)} more than first-fit decreasing"
    if beyond > 0:
        assert found.certificate == f"within {beyond} row{'s' * (beyond > 1)} of optimal"
    else:
        assert found.certificate == "optimal"


def test_trl_is_exactly_best_fit_decreasing_within_one_map_batch():
    pytest.importorskip("trl")
    sizes = np.random.default_rng(4).integers(1, 30, 90).tolist()
    found = packed_by(shipped_packers({})["trl_bfd"], sizes, 40)
    assert found.packer.startswith("exactly ")
    assert BEST_FIT in found.exactly
    in_parts = packed_by(shipped_packers({"batch_size": 7})["trl_bfd"], sizes, 40)
    assert not in_parts.exactly
    assert in_parts.rows > in_parts.first_fit
    assert in_parts.packer == f"uses {in_parts.rows - in_parts.first_fit} rows more than first-fit decreasing"


def test_split_samples_are_never_exactly_a_reference():
    pytest.importorskip("trl")
    found = packed_by(shipped_packers({})["trl_wrapped"], [6, 6, 6], 9)
    assert (found.rows, found.first_fit, found.fewest, found.exactly) == (2, 3, 3, None)


def test_rows_run_together_are_not_compared():
    """A batch that holds three packed rows as one, and no word of the rows: 15 tokens where 6 are allowed."""
    case = Case([{"input_ids": [place] * 5, "labels": [place] * 5} for place in (1, 2, 3)], 6, batch_size=3)
    parts = (shipped_packers({})["ffd"], flat, case.admitted, 6, 3)
    deliveries = [replace(delivery, rows=None) for delivery in packed_deliveries(*parts)]
    assert audit(deliveries, case.samples, case.expected, "mine").comparison is None
    seen = [Delivery(delivery.rows, None) for delivery in packed_deliveries(*parts)]
    found = audit([*seen, *deliveries], case.samples, case.expected, "mine").comparison
    assert (found.rows, found.exactly) == (3, None)


def test_nothing_is_said_of_samples_that_did_not_come_as_planned():
    def forgetful(samples, max_tokens_per_bin):
        yield from list(next_fit(samples, max_tokens_per_bin))[:-1]

    assert packed_by(forgetful, [5, 5, 5], 6) is None
    assert packed_by(next_fit, [5, 5, 5], 6) is not None


def test_equal_samples_are_known_by_their_tokens():
    """BFD may swap samples of one length; where they have the same tokens no one can tell."""
    rows = [[1, 2, 3], [4, 5, 6], [4, 5, 6], [7, 8, 9]]
    case = Case([{"input_ids": ids, "labels": ids} for ids in rows], capacity=6)

    def swapped(samples, max_tokens_per_bin):
        yield joined([samples[0], samples[2]])
        yield joined([samples[1], samples[3]])

    parts = (swapped, flat, case.admitted, 6, 1)
    found = audit(packed_deliveries(*parts), case.samples, case.expected, "mine").comparison
    assert found.packer == "exactly first-fit decreasing and best-fit decreasing"
