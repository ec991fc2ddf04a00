"""Failures that people reported, each with the smallest input known."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing.invariants import offset_range
from pytest_longctx.packing.packers import shipped_packers
from pytest_longctx.testing import Case, failing_checks
from pytest_longctx.testing.examples import flat


def tokens(*rows):
    """Samples of given ids, every token supervised but the first."""
    return [{"input_ids": list(ids), "labels": [-100, *ids[1:]]} for ids in rows]


def gives(*rows):
    """A packer that gives these rows of ids, each as one or more segments."""

    def pack(samples, max_tokens_per_bin):
        for segments in rows:
            labels = np.concatenate([[-100, *ids[1:]] for ids in segments])
            lengths = [len(ids) for ids in segments]
            yield {"input_ids": np.concatenate(segments), "labels": labels, "seq_lengths": lengths}

    return pack


def found(packer, case, collator=flat):
    return {
        check: [(w.id, w.expected, w.found) for w in witnesses]
        for check, witnesses in failing_checks(packer, collator, case).items()
    }


def trl(name, **map_kwargs):
    pytest.importorskip("trl")
    return shipped_packers(map_kwargs)[f"trl_{name}"]


def test_a_packed_row_without_supervision_is_named_with_its_samples():
    case = Case(
        [{"input_ids": list(range(1, 17)), "labels": [-100] * 16}, *tokens([30, 31])],
        capacity=16,
        names=["a", "b"],
    )
    (witness,) = failing_checks(trl("bfd"), flat, case)["supervision_per_row"]
    assert (witness.id, witness.note) == ("row 0", "a")


def test_wrapping_that_reads_the_first_rows_again():
    samples = tokens([1], [2, 3], [4, 5, 6], [7], [8, 9])
    case = Case(samples, capacity=2)
    wrong = gives([[1, 2]], [[3]], [[1, 2]], [[3]], [[8, 9]])
    conservation = found(wrong, case)["sample_conservation"]
    # Row and token totals are right; samples 2 and 3 are lost, 0 and 1 come twice.
    assert [(name, what) for name, _, what in conservation] == [
        ("sample 0", "2 times"),
        ("sample 2", "lost"),
        ("sample 3", "lost"),
        ("sample 1", "1 tokens twice"),
        ("sample 1", "1 tokens twice"),
    ]


def test_one_piece_closes_one_gap():
    """Of four equal samples the first comes with another token for its first: one [0] makes up no [0, 0]."""
    samples = [{"input_ids": [0, 0], "labels": labels} for labels in ([-100, -100], [0, 0], [0, 0], [0, 0])]

    def collate(rows):
        batch = flat(rows)
        if batch["input_ids"].size == 6:
            batch["input_ids"][0, 0] = 100
        return batch

    conservation = found(shipped_packers({})["ffd"], Case(samples, capacity=7), collate)[
        "sample_conservation"
    ]
    assert conservation[0] == ("sample 0", "2 tokens once", "lost")


def test_wrapping_keeps_every_token():
    case = Case(tokens([1], [2, 3], [4, 5, 6], [7], [8, 9]), capacity=2)
    rows = list(trl("wrapped", batch_size=2)(case.admitted, 2))
    assert [row["input_ids"].tolist() for row in rows] == [[1, 2], [3], [4, 5], [6, 7], [8, 9]]
    failing = found(trl("wrapped", batch_size=2), case)
    assert "sample_conservation" not in failing
    # The rests [3] and [6] are no targets where they start a row or a segment.
    assert failing["target_count"] == [("row 1", 1, 0), ("row 3", 1, 0)]


def test_bfd_cuts_long_samples():
    case = Case(tokens([1, 2, 3, 4, 5], [6, 7], [8, 9, 10], [11]), capacity=4)
    assert found(trl("bfd"), case) == {
        "sample_conservation": [("sample 0", "5 tokens once", "cut, 1 tokens lost")]
    }


def test_bfd_split_trains_an_answer_without_its_prompt_and_loses_a_target():
    sample = {"input_ids": [1, 2, 3, 4, 5, 6, 7], "labels": [-100, -100, 3, 4, 5, 6, 7]}
    assert found(trl("bfd_split"), Case([sample], capacity=4)) == {
        "orphan_fragments": [("sample 0", "starts at token 0", "starts at token 4")],
        "target_count": [("row 1", 3, 2)],
    }


def test_a_fragment_of_one_token_is_no_padding():
    sample = {"input_ids": [1, 2, 3, 4, 5], "labels": [-100, 2, 3, 4, 5]}
    case = Case([sample, *tokens([8, 9, 10])], capacity=4)
    assert found(trl("bfd_split"), case) == {"target_count": [("row 1", 3, 2)]}


def test_a_map_that_gives_a_row_back_unprocessed_is_no_loss():
    case = Case(tokens([1, 2], [3, 4], [5, 6]), capacity=6)
    assert found(gives([[1, 2], [3, 4]], [[5, 6]]), case) == {}
    assert found(gives([[1, 2], [3, 4]]), case) == {
        "sample_conservation": [("sample 2", "2 tokens once", "lost")]
    }


def test_lengths_dropped_before_the_collator():
    case = Case(tokens([1, 2, 3], [4, 5]), capacity=5)
    without = {"input_ids": np.arange(1, 6), "labels": np.array([-100, 2, 3, -100, 5])}
    failing = found(lambda samples, capacity: [without], case)
    assert failing["position_ids"] == [("sample 1", 0, 3)]


def test_the_first_token_of_the_second_sample_is_trained():
    samples = [{"input_ids": ids, "labels": ids} for ids in ([1, 2, 3], [4, 5])]

    def collate(rows):
        return {**flat(rows), "labels": np.array([[1, 2, 3, 4, 5]])}

    assert found(gives([[1, 2, 3], [4, 5]]), Case(samples, capacity=5), collate) == {
        "boundary_labels": [("sample 1", -100, 4)],
        "target_count": [("row 0", 3, 4)],
    }


def test_offsets_that_wrap_32_bits():
    (witness,) = offset_range(225_304, 9_728, 0)
    assert (witness.expected, witness.found) == (2**31 - 1, 225_304 * 9_728 - 1)
    assert list(offset_range(220_752, 9_728, 0)) == []


def test_windows_around_a_power_of_two_pack_alike():
    random = np.random.default_rng(0)
    rows = [
        {"input_ids": ids, "labels": ids}
        for ids in (random.integers(1, 99, size) for size in random.integers(400, 625, 300))
    ]
    counts = [
        len(list(shipped_packers({})["ffd"](Case(rows, capacity).admitted, capacity)))
        for capacity in (1024, 1025)
    ]
    assert abs(counts[0] - counts[1]) <= 3


def test_equal_samples_are_told_apart_by_number():
    case = Case(tokens([1, 2], [1, 2], [1, 2], [3, 4]), capacity=4)
    assert found(gives([[1, 2], [3, 4]], [[1, 2], [1, 2]]), case) == {}
    assert found(gives([[1, 2], [3, 4]], [[1, 2]]), case)["sample_conservation"] == [
        ("sample 2", "2 tokens once", "lost")
    ]
    many = found(gives([[1, 2], [3, 4]], [[1, 2], [1, 2]], [[1, 2]]), case)
    assert many["sample_conservation"] == [("sample 2", "2 tokens once", "2 times")]


def test_a_sample_in_another_order_is_not_lost():
    case = Case(tokens([1, 2, 3, 4], [5, 6]), capacity=6)
    failing = found(gives([[1, 3, 2, 4], [5, 6]]), case)
    assert failing == {"token_order": [("sample 0", "the sample's order", "its tokens in another order")]}


def test_foreign_tokens_are_named_by_their_place():
    case = Case(tokens([1, 2, 3], [5, 6]), capacity=9)
    (witness,) = failing_checks(gives([[1, 2, 3], [70, 71, 72], [5, 6]]), flat, case)["sample_conservation"]
    assert (witness.row, witness.segment, witness.position) == (0, 1, 3)
    assert witness.found == "3 tokens that no sample has"


def test_witnesses_name_row_segment_sample_and_position():
    def collate(rows):
        batch = flat(rows)
        batch["labels"][0, 6] = 77
        return batch

    case = Case(tokens([1, 2, 3], [4, 5, 6, 7], [8, 9]), capacity=9, names=["a", "b", "c"])
    (witness,) = failing_checks(gives([[1, 2, 3], [4, 5, 6, 7], [8, 9]]), collate, case)["labels_preserved"]
    assert (witness.id, witness.row, witness.segment, witness.position) == ("b", 0, 1, 6)
    assert (witness.expected, witness.found) == (7, 77)


def test_rows_of_a_flattened_batch_are_counted_by_the_packed_row():
    def collate(rows):
        batch = flat(rows)
        batch["labels"][0, 4] = -100
        return batch

    case = Case(tokens([1, 2, 3], [4, 5], [6, 7]), capacity=3)
    failing = failing_checks(gives([[1, 2, 3]], [[4, 5]], [[6, 7]]), collate, case, batch_size=3)
    assert [(w.id, w.note) for w in failing["supervision_per_row"]] == [("row 1", "sample 1")]
    assert [(w.row, w.segment, w.position) for w in failing["labels_preserved"]] == [(1, 0, 1)]
