from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_longctx.packing.audit import audit
from pytest_longctx.packing.batch import read_batch
from pytest_longctx.packing.collators import block_mask, build_collator, padded
from pytest_longctx.packing.layout import layouts
from pytest_longctx.packing.packers import shipped_packers
from pytest_longctx.packing.pipeline import packed_deliveries
from pytest_longctx.testing import HARMLESS, MUTANTS, Case, failing_checks
from pytest_longctx.testing.examples import flat

PACKERS = ("ffd", "bfd", "none")
COLLATORS = {"padded": padded, "block_mask": block_mask, "flat": flat}
IDS = st.integers(min_value=0, max_value=5)  # few of them, and the padding id too: samples are alike


@st.composite
def samples(draw, smallest=2):
    """Samples of few ids, each with a target."""
    ids = draw(st.lists(IDS, min_size=smallest, max_size=9))
    start = draw(st.integers(0, len(ids) - 1))
    return {"input_ids": ids, "labels": [-100] * start + ids[start:]}


@st.composite
def cases(draw):
    rows = draw(st.lists(samples(), min_size=1, max_size=12))
    return Case(rows, capacity=draw(st.integers(max(len(row["input_ids"]) for row in rows), 24)))


@settings(deadline=None, max_examples=150)
@given(cases(), st.sampled_from(PACKERS), st.sampled_from(sorted(COLLATORS)), st.integers(1, 4))
def test_every_shipped_packer_with_every_collator_passes(case, packer, collator, batch_size):
    pack = shipped_packers({})[packer]
    assert failing_checks(pack, COLLATORS[collator], case, batch_size) == {}


@settings(deadline=None, max_examples=8)
@given(cases(), st.sampled_from(["trl_bfd", "trl_bfd_split"]), st.integers(1, 3))
def test_trl_passes_where_all_samples_fit(case, packer, batch_size):
    pytest.importorskip("trl")
    for name in ("trl_padding_free", "flattening"):
        assert (
            failing_checks(shipped_packers({})[packer], build_collator(name, {}, 0), case, batch_size) == {}
        )


@settings(deadline=None, max_examples=150)
@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=4), st.randoms())
def test_the_layout_is_the_same_from_every_dialect(lengths, random):
    width = max(map(sum, lengths)) + random.randint(0, 3)
    number = np.zeros((len(lengths), width), dtype=np.int64)
    positions = np.zeros_like(number)
    for row, sizes in enumerate(lengths):
        number[row, : sum(sizes)] = np.repeat(np.arange(1, len(sizes) + 1), sizes)
        positions[row, : sum(sizes)] = np.concatenate([np.arange(size) for size in sizes])
    fields = {
        "input_ids": number,
        "labels": number,
        "attention_mask": number,
        "seq_idx": number - 1,
        "position_ids": positions,
        "seq_lengths": lengths,
    }
    same = (number[:, :, None] == number[:, None, :]) & (number > 0)[:, :, None]
    found = layouts(read_batch(fields, "maker"))
    found += layouts(read_batch({**fields, "attention_mask": np.tril(same)[:, None]}, "maker"))
    ends = [np.cumsum(sizes) for sizes in lengths]
    expected = {
        (row, int(e - s), int(e))
        for row, sizes in enumerate(lengths)
        for s, e in zip(sizes, ends[row], strict=True)
    }
    for layout in found:
        spans = set(zip(layout.row.tolist(), layout.start.tolist(), layout.end.tolist(), strict=True))
        padding = spans - expected
        assert expected <= spans
        assert layout.faults == ()
        assert not padding or (layout.dialect == "position_ids" and all(e - s == 1 for _, s, e in padding))


@settings(deadline=None, max_examples=60)
@given(st.lists(samples(), min_size=1, max_size=6), st.lists(samples(), min_size=1, max_size=6), st.randoms())
def test_counts_of_two_datasets_add_up_to_those_of_both(left, right, random):
    """The rows of the one hold ids that the other has not, and are never packed together."""
    left = [{name: [50 + id_ if id_ >= 0 else id_ for id_ in row[name]] for name in row} for row in left]
    right = [{name: [90 + id_ if id_ >= 0 else id_ for id_ in row[name]] for name in row} for row in right]
    broken = random.choice(
        [lambda batch: batch, *(mutant.apply for mutant in MUTANTS if mutant.name in NAMED)]
    )
    counts = [_audit(rows, broken) for rows in (left, right, [*left, *right])]
    assert counts[0] + counts[1] == counts[2]


NAMED = ("counts_positions_through_the_row", "gives_borders_as_int64", "trains_the_first_token_of_a_segment")


def _audit(rows, broken):
    case = Case(rows, capacity=9)
    parts = (shipped_packers({})["none"], lambda rows: broken(flat(rows)), case.admitted, 9, 1)
    found = audit(packed_deliveries(*parts), case.samples, case.expected, "mine")
    totals = {
        name: getattr(found, name)
        for name in ("rows", "row_tokens", "targets", "expected_targets", "batches")
    }
    return Counter({**found.counts, **totals})


@settings(deadline=None, max_examples=60)
@given(cases(), st.data())
def test_a_lost_sample_is_always_missed(case, data):
    lost = data.draw(st.integers(0, len(case.rows) - 1))

    def loses(samples, max_tokens_per_bin):
        return (
            row
            for place, row in enumerate(shipped_packers({})["none"](samples, max_tokens_per_bin))
            if place != lost
        )

    assume(len(case.rows) > 1)
    failing = failing_checks(loses, padded, case)
    assert failing.keys() == {"sample_conservation"}
    (witness,) = failing["sample_conservation"]
    ids = case.rows[lost]["input_ids"]
    # Of equal samples any one may be named.
    assert case.rows[int(witness.id.removeprefix("sample "))]["input_ids"] == ids


def test_harmless_variants_and_mutants_are_disjoint():
    assert not {mutant.name for mutant in HARMLESS} & {mutant.name for mutant in MUTANTS}
