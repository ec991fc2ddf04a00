"""What proves a batch sound, proof by proof: batches of three samples, and columns put down by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.packing import proof
from pytest_longctx.packing.audit import Delivery
from pytest_longctx.packing.block import Block, plain
from pytest_longctx.packing.match import SampleIndex
from pytest_longctx.packing.proof import PROOFS, Prover
from pytest_longctx.packing.segments import find_segments
from pytest_longctx.testing import Case

# a, b and c; b trains on its first token, too.
SAMPLES = [
    {"input_ids": [1, 2, 3], "labels": [-100, 2, 3]},
    {"input_ids": [4, 5], "labels": [4, 5]},
    {"input_ids": [6, 7, 8, 9], "labels": [-100, 7, 8, 9]},
]
CASE = Case(SAMPLES, 5)


def prover_of(case=CASE):
    samples, expected = case.samples, case.expected
    return Prover(samples, SampleIndex(samples, expected.lengths, expected.capacity), expected)


def padded(**changed):
    """Row 0 holds a and b, row 1 holds c and one token of padding."""
    batch = {
        "input_ids": [[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]],
        "labels": [[-100, 2, 3, -100, 5], [-100, 7, 8, 9, -100]],
        "position_ids": [[0, 1, 2, 0, 1], [0, 1, 2, 3, 0]],
        "attention_mask": [[1, 1, 1, 2, 2], [1, 1, 1, 1, 0]],
    }
    return arrays(batch, changed)


def flat(**changed):
    """One row of b and a."""
    batch = {
        "input_ids": [[4, 5, 1, 2, 3]],
        "labels": [[-100, 5, -100, 2, 3]],
        "position_ids": [[0, 1, 0, 1, 2]],
        "seq_idx": [[0, 0, 1, 1, 1]],
    }
    return arrays(batch, changed)


def flat_c(**changed):
    """One row of c."""
    batch = {
        "input_ids": [[6, 7, 8, 9]],
        "labels": [[-100, 7, 8, 9]],
        "position_ids": [[0, 1, 2, 3]],
        "seq_idx": [[0, 0, 0, 0]],
    }
    return arrays(batch, changed)


def edged(batch, edges, longest):
    edges = np.array(edges, np.int32)
    return batch | {"cu_seq_lens_q": edges, "cu_seq_lens_k": edges.copy(), "max_length_q": longest,
                    "max_length_k": longest}  # fmt: skip


def arrays(batch, changed):
    return {name: np.array(value) for name, value in (batch | changed).items() if value is not None}


def block_of(*batches, normalizers=None):
    block = Block.of_kind(plain(batches[0]))
    for batch, normalizer in zip(batches, normalizers or [None] * len(batches), strict=True):
        block.add(plain(batch), Delivery(None, batch, normalizer), 0)
    return block


def failing(*batches, sample, case=CASE, normalizers=None):
    """The names of the proofs that fail, of segments that are these samples."""
    prover, segments = prover_of(case), find_segments(block_of(*batches, normalizers=normalizers))
    segments.sample = np.array(sample)
    return [one.__name__[1:] for one in PROOFS if not one(prover, segments)]


def fails_padded(case=CASE, **changed):
    return failing(padded(**changed), sample=[0, 1, 2], case=case)


class TestProver:
    def test_gathers_what_samples_have(self):
        prover, segments = prover_of(), SimpleNamespace(sample=np.array([1, 0, 2]), size=np.array([2, 2, 4]))
        assert prover.gather(prover.ids, segments).tolist() == [4, 5, 1, 2, 6, 7, 8, 9]
        assert prover.gather(prover.labels, segments).tolist() == [4, 5, -100, 2, -100, 7, 8, 9]

    @pytest.mark.parametrize(
        ("ids", "pad", "vocabulary", "able"),
        [
            ([[0, 5], [3, 1]], 0, None, True),
            ([[0, 5], [3, 1]], 5, 6, True),
            ([[0, 5], [3, 1]], 6, 6, False),
            ([[0, 5], [3, 1]], 7, 6, False),
            ([[0, 6], [3, 1]], 0, 5, False),
            ([[0, 5], [3, 1]], 0, 5, False),
            ([[0, 1], [5, 1]], 0, 5, False),
            ([[0, 1], [1, 5]], 0, 5, False),
            ([[0, 5], [3, 1]], 2**31 - 1, None, True),
            ([[0, 5], [3, 1]], 2**31, None, False),
            ([[0, 2**31 - 1], [3, 1]], 0, None, True),
            ([[0, 2**31 - 1], [3, 1]], 0, 2**31 - 1, False),
            ([[0, 5], [-(2**31), 1]], 0, 2**33, False),
            ([[0, 5], [3, 1]], -1, None, False),
            ([[-1, 5], [3, 1]], 0, None, False),
            ([[0, 5], [3, -1]], 0, None, False),
        ],
    )
    def test_able(self, ids, pad, vocabulary, able):
        rows = [{"input_ids": row, "labels": row} for row in ids]
        assert prover_of(Case(rows, pad_token_id=pad, vocabulary=vocabulary)).able is able

    @pytest.mark.parametrize(("lengths", "able"), [([0, 0, 0], False), ([0, 1, 0], True), ([0, 0, 1], True)])
    def test_able_only_where_some_sample_comes(self, lengths, able):
        assert prover_of(Case(SAMPLES, lengths=lengths)).able is able

    @pytest.mark.parametrize("batches", [[padded()], [flat(), flat_c()]])
    def test_proves(self, batches):
        prover = prover_of()
        segments = prover.prove(block_of(*batches))
        assert segments.sample.tolist() == ([0, 1, 2] if len(batches) == 1 else [1, 0, 2])
        assert segments.size.tolist() == ([3, 2, 4] if len(batches) == 1 else [2, 3, 4])
        assert prover.index.delivered.tolist() == [1, 1, 1]

    @pytest.mark.parametrize(
        "batch",
        [
            padded(input_ids=[[1, 2, 3, 4, 5], [6, 7, 8, 99, 0]]),
            padded(labels=[[-100, 2, 3, -100, 5], [-100, 7, 8, 9, 9]]),
            padded(position_ids=[[0, 1, 2, 0, 1], [1, 1, 2, 3, 0]]),
        ],
    )
    def test_counts_nothing_where_nothing_is_proven(self, batch):
        prover = prover_of()
        assert prover.prove(block_of(batch)) is None
        assert prover.index.delivered.tolist() == [0, 0, 0]

    def test_proves_nothing_where_not_able(self):
        prover = prover_of(Case(SAMPLES, 5, vocabulary=9))
        assert prover.prove(block_of(padded())) is None
        assert prover.index.delivered.tolist() == [0, 0, 0]


class TestProofs:
    def test_all_hold(self):
        assert fails_padded() == []
        assert failing(flat(), flat_c(), sample=[1, 0, 2]) == []
        assert failing(edged(flat(position_ids=None), [0, 2, 5], 3), sample=[1, 0]) == ["positions"]
        assert failing(edged(flat(), [0, 2, 5], 3), sample=[1, 0]) == []

    @pytest.mark.parametrize("place", range(10))
    def test_tokens(self, place):
        ids = padded()["input_ids"]
        ids.flat[place] += 20
        assert fails_padded(input_ids=ids) == ["tokens"]

    def test_tokens_of_padding(self):
        assert fails_padded(case=Case(SAMPLES, 5, pad_token_id=3)) == ["tokens"]
        ids = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 3]]
        assert fails_padded(case=Case(SAMPLES, 5, pad_token_id=3), input_ids=ids) == []

    @pytest.mark.parametrize("place", range(10))
    def test_labels(self, place):
        labels = padded()["labels"]
        labels.flat[place] = 77
        assert fails_padded(labels=labels) == ["labels"]

    def test_a_sample_may_keep_its_first_label_at_a_rows_start_only(self):
        assert failing(flat(labels=[[4, 5, -100, 2, 3]]), sample=[1, 0]) == []
        labels = [[-100, 2, 3, 4, 5], [-100, 7, 8, 9, -100]]
        assert fails_padded(labels=labels) == ["labels"]

    def test_a_first_label_of_any_number_may_be_none(self):
        case = Case([SAMPLES[0], {"input_ids": [4, 5], "labels": [-200, 5]}], 5)
        assert failing(flat(), sample=[1, 0], case=case) == []
        assert failing(flat(labels=[[-150, 5, -100, 2, 3]]), sample=[1, 0], case=case) == ["labels"]

    def test_a_target_less_is_no_sample(self):
        labels = [[-100, 2, -100, -100, 5], [-100, 7, 8, 9, -100]]
        assert fails_padded(labels=labels) == ["labels"]

    def test_positions_in_padding(self):
        assert fails_padded(position_ids=[[0, 1, 2, 0, 1], [0, 1, 2, 3, 4]]) == ["positions"]

    @pytest.mark.parametrize("place", [1, 2, 4, 6, 7, 8])
    def test_positions(self, place):
        positions = padded()["position_ids"]
        positions.flat[place] += 1
        assert fails_padded(position_ids=positions) == ["positions"]

    def test_without_positions_each_row_is_one_segment(self):
        for number in (2, 300):
            assert failing(*[flat_c(position_ids=None)] * number, sample=[2] * number) == []

    @pytest.mark.parametrize(
        ("seq_idx", "holds"),
        [
            ([0, 0, 1, 1, 1], True),
            ([1, 1, 2, 2, 2], False),
            ([0, 0, 0, 0, 0], False),
            ([0, 0, 1, 2, 1], False),
            ([0, 1, 1, 1, 1], False),
            ([0, 0, 2, 2, 2], False),
        ],
    )
    def test_indices(self, seq_idx, holds):
        assert failing(flat(seq_idx=[seq_idx]), sample=[1, 0]) == ([] if holds else ["indices"])

    def test_indices_of_each_row(self):
        found = failing(flat(), flat_c(seq_idx=[[2, 2, 2, 2]]), sample=[1, 0, 2])
        assert found == ["indices"]
        assert failing(flat(seq_idx=None), sample=[1, 0]) == []

    def test_indices_beside_padding_are_not_judged(self):
        assert fails_padded(seq_idx=[[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]) == ["indices"]

    @pytest.mark.parametrize(
        ("mask", "holds"),
        [
            ([[1, 1, 1, 2, 2], [1, 1, 1, 1, 0]], True),
            ([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]], True),
            ([[True] * 5, [True, True, True, True, False]], True),
            ([[2, 2, 2, 2, 2], [2, 2, 2, 2, 0]], False),
            ([[2, 2, 2, 3, 3], [1, 1, 1, 1, 0]], False),
            ([[1, 1, 1, 2, 2], [3, 3, 3, 3, 0]], False),
            ([[1, 1, 1, 2, 1], [1, 1, 1, 1, 0]], False),
            ([[1, 1, 1, 3, 3], [1, 1, 1, 1, 0]], False),
            ([[-1, -1, -1, 1, 1], [1, 1, 1, 1, 0]], False),
            ([[-1, -1, -1, -1, -1], [-1, -1, -1, -1, 0]], False),
        ],
    )
    def test_mask(self, mask, holds):
        assert fails_padded(attention_mask=mask) == ([] if holds else ["mask"])

    def test_mask_of_full_rows(self):
        for mask, holds in (([1, 1, 2, 2, 2], True), ([1] * 5, True), ([1, 1, 2, 3, 2], False)):
            found = failing(flat(seq_idx=None, attention_mask=[mask]), sample=[1, 0])
            assert found == ([] if holds else ["mask"])

    def test_a_mask_of_more_tokens_than_segments_have(self):
        column = np.array([1, 1, 1, 0])
        segments = SimpleNamespace(
            block=SimpleNamespace(flat={"attention_mask": column}.get),
            covered=column != 0,
            rows=np.array([0]),
            filled=np.array([3]),
            size=np.array([3]),
            inside=lambda name: column[:3],
        )
        assert proof._mask(prover_of(), segments)
        for size in ([2], [4]):
            segments.size = np.array(size)
            assert not proof._mask(prover_of(), segments)

    @pytest.mark.parametrize(
        ("first", "second", "holds"),
        [(3, 4, True), (9, 9, True), (2, 4, False), (3, 3, False), (4, 3, False)],
    )
    def test_longest(self, first, second, holds):
        batches = edged(flat(), [0, 2, 5], first), edged(flat_c(), [0, 4], second)
        assert failing(*batches, sample=[1, 0, 2]) == ([] if holds else ["longest"])

    @pytest.mark.parametrize(
        ("said", "holds"), [([None, None], True), ([3, 3], True), ([None, 2], False), ([4, 3], False)]
    )
    def test_divisors(self, said, holds):
        found = failing(flat(), flat_c(), sample=[1, 0, 2], normalizers=said)
        assert found == ([] if holds else ["divisors"])
        assert failing(flat(), sample=[1, 0], normalizers=[0]) == ["divisors"]

    def test_a_divisor_does_not_count_a_rows_first_label(self):
        batch = flat(labels=[[4, 5, -100, 2, 3]])
        assert failing(batch, sample=[1, 0], normalizers=[3]) == []
        assert failing(batch, sample=[1, 0], normalizers=[4]) == ["divisors"]

    def test_hundreds_of_tokens(self):
        ids = np.arange(1, 301)
        batch = {
            "input_ids": np.append(ids, 0)[None],
            "labels": np.concatenate([[-100], ids[1:], [-100]])[None],
            "position_ids": np.append(np.arange(300), 0)[None],
            "attention_mask": np.append(np.ones(300, np.int64), 0)[None],
        }
        case = Case([{"input_ids": ids, "labels": ids}], 301)
        assert failing(batch, sample=[0], case=case, normalizers=[299]) == []
        assert failing(batch, sample=[0], case=case, normalizers=[300]) == ["divisors"]
