"""What is said of one fault in a batch of three samples: which sample, where, what was expected and found."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing.collators import padded
from pytest_longctx.testing import Case, failing_checks
from pytest_longctx.testing.examples import flat

# Row 0 holds a (3 tokens) and b (2), row 1 holds c (4).
SAMPLES = [
    {"input_ids": [1, 2, 3], "labels": [-100, 2, 3]},
    {"input_ids": [4, 5], "labels": [-100, 5]},
    {"input_ids": [6, 7, 8, 9], "labels": [-100, 7, 8, 9]},
]


def pack(samples, max_tokens_per_bin):
    a, b, c = SAMPLES
    yield {
        "input_ids": np.array(a["input_ids"] + b["input_ids"]),
        "labels": np.array(a["labels"] + b["labels"]),
        "seq_lengths": [3, 2],
    }
    yield {"input_ids": np.array(c["input_ids"]), "labels": np.array(c["labels"]), "seq_lengths": [4]}


@pytest.fixture
def told():
    """The witnesses by check of a batch of both rows whose fields were changed."""

    def told(collator, change):
        def collate(rows):
            batch = collator(rows)
            change(batch)
            return batch

        failing = failing_checks(pack, collate, Case(SAMPLES, 5, names=["a", "b", "c"]), batch_size=2)
        return {
            check: [(w.id, w.row, w.segment, w.position, w.expected, w.found) for w in witnesses]
            for check, witnesses in failing.items()
        }

    return told


def test_nothing_is_wrong(told):
    assert told(flat, lambda batch: None) == told(padded, lambda batch: None) == {}


class TestFlattened:
    """Tokens 0–3 are a, 3–5 b, 5–9 c; b is the second segment of row 0, c the first of row 1."""

    def test_an_index_that_changes_inside_a_sample(self, told):
        def change(batch):
            batch["seq_idx"][0, 6:8] = 9

        found = told(flat, change)
        assert found["sequence_indices"] == [("c", 1, 0, 1, 2, 9)]
        assert found["mask_agrees"] == [("c", 1, 0, 0, "5–9", "5–6")]

    def test_an_index_that_is_left_out(self, told):
        def change(batch):
            batch["seq_idx"][0, 3:] += 1

        assert told(flat, change) == {"sequence_indices": [("b", 0, 1, 3, 1, 2)]}

    def test_a_border_that_is_missing(self, told):
        def change(batch):
            batch["cu_seq_lens_q"] = batch["cu_seq_lens_k"] = np.array([0, 3, 9], np.int32)
            batch["max_length_q"] = batch["max_length_k"] = 6

        found = told(flat, change)
        assert found["cumulative_boundaries"] == found["mask_agrees"]
        assert found["mask_agrees"] == [("b", 0, 1, 3, "3–5", "3–9"), ("c", 1, 0, 0, "5–9", "3–9")]

    def test_borders_of_the_keys_that_are_others(self, told):
        def change(batch):
            batch["cu_seq_lens_k"] = np.array([0, 5, 9], np.int32)

        assert ("cu_seq_lens_k", 0, None, None, "as cu_seq_lens_q", "other borders") in told(flat, change)[
            "cumulative_boundaries"
        ]

    def test_no_positions(self, told):
        assert told(flat, lambda batch: batch.pop("position_ids")) == {
            "position_ids": [("b", 0, 1, 3, 0, 3), ("c", 1, 0, 0, 0, 5)]
        }

    def test_a_longest_segment_that_is_too_short(self, told):
        found = told(flat, lambda batch: batch.update(max_length_q=3))
        assert found == {"varlen_fields": [("max_length_q", 0, None, None, 4, 3)]}
        assert told(flat, lambda batch: batch.update(max_length_q=5)) == {}
        found = told(flat, lambda batch: batch.update(max_length_q=np.int64(4)))
        assert found == {"varlen_fields": [("max_length_q", 0, None, None, "a plain int", "int64")]}

    def test_one_varlen_argument_is_missing(self, told):
        expected = "all four varlen arguments, or none"
        found = told(flat, lambda batch: batch.pop("max_length_k"))
        assert found == {"varlen_fields": [("max_length_k", 0, None, None, expected, "missing")]}

    def test_a_position_that_is_wrong(self, told):
        def change(batch):
            batch["position_ids"][0, 7:] += 1

        found = told(flat, change)
        assert found["position_ids"] == [("c", 1, 0, 2, 2, 3)]
        assert found["mask_agrees"] == [("c", 1, 0, 0, "5–9", "5–7")]

    def test_a_label_at_the_first_token(self, told):
        def change(batch):
            batch["labels"][0, 3] = 4

        found = told(flat, change)
        assert found["boundary_labels"] == [("b", 0, 1, 3, -100, 4)]
        assert [(row, expected, got) for _, row, _, _, expected, got in found["target_count"]] == [(0, 3, 4)]

    def test_a_label_below_that_of_no_target(self, told):
        def change(batch):
            batch["labels"][0, 3] = -101

        assert told(flat, change)["labels_preserved"] == [("b", 0, 1, 3, -100, -101)]

    def test_a_target_that_is_lost(self, told):
        def change(batch):
            batch["labels"][0, 2] = -100

        assert told(flat, change)["labels_preserved"] == [("a", 0, 0, 2, 3, -100)]


class TestPadded:
    """Two rows of 5 tokens; the last of row 1 is padding."""

    def test_a_hidden_token(self, told):
        def change(batch):
            batch["attention_mask"] = np.array([[1, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
            batch["seq_lengths"] = [[3, 2], [4]]

        found = told(padded, change)
        assert found["mask_agrees"] == [("a", 0, 0, 1, "attended", "masked as padding")]

    def test_hidden_tokens_are_told_once(self, told):
        def change(batch):
            batch["attention_mask"] = np.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 0]])
            batch["seq_lengths"] = [[3, 2], [4]]

        found = told(padded, change)
        assert found["mask_agrees"] == [("c", 1, 0, 0, "attended", "masked as padding")]

    def test_padding_with_a_label(self, told):
        def change(batch):
            for name in ("input_ids", "labels", "attention_mask"):
                filler = np.full((2, 2), {"labels": -100}.get(name, 0))
                batch[name] = np.concatenate([batch[name], filler], axis=1)
            if "position_ids" in batch:
                batch["position_ids"] = np.concatenate([batch["position_ids"], np.zeros((2, 2), int)], axis=1)
            batch["labels"][1, 4:6] = 8

        found = told(padded, change)
        assert [where[1:] for where in found["padding_segment"]] == [(1, 0, 4, -100, 8)]

    def test_padding_ahead_of_the_first_sample_is_nobodys(self, told):
        def change(batch):
            for name, values in batch.items():
                if isinstance(values, np.ndarray) and values.ndim == 2:
                    filler = np.full((2, 1), -100 if name == "labels" else 0)
                    batch[name] = np.concatenate([filler, values], axis=1)
            batch["labels"][0, 0] = 8

        found = told(padded, change)["padding_segment"]
        assert ("(padding)", 0, 0, 0, -100, 8) in found

    def test_padding_in_a_segment(self, told):
        def change(batch):
            batch["attention_mask"][1, 4] = 1

        ((_, row, _, _, expected, got),) = told(padded, change)["padding_segment"]
        assert (row, expected, got) == (1, "no padding", "1 padding tokens")


def test_a_row_that_trains_nothing_names_its_samples():
    def collate(rows):
        batch = padded(rows)
        batch["labels"][0] = -100
        return batch

    failing = failing_checks(pack, collate, Case(SAMPLES, 5, names=["a", "b", "c"]), batch_size=2)
    found = [(w.id, w.row, w.note, w.expected, w.found) for w in failing["supervision_per_row"]]
    assert found == [("row 0", 0, "a, b", "≥ 1 target", 0)]


@pytest.mark.parametrize(("labels", "told"), [([8, 9], True), ([-100, 9], True), ([-100, -100], False)])
def test_a_fragment_is_an_orphan_where_it_trains(labels, told):
    sample = {"input_ids": [6, 7, 8, 9], "labels": [-100, 7, *labels]}

    def cut(samples, max_tokens_per_bin):
        for part in (slice(0, 2), slice(2, 4)):
            yield {name: np.array(values[part]) for name, values in sample.items()} | {"seq_lengths": [2]}

    failing = failing_checks(cut, padded, Case([sample], 2))
    found = [(w.expected, w.found) for w in failing.get("orphan_fragments", ())]
    assert found == [("starts at token 0", "starts at token 2")] * told


def test_a_fragment_that_lacks_one_token_is_an_orphan():
    sample = {"input_ids": [6, 7, 8], "labels": [-100, 7, 8]}

    def cut(samples, max_tokens_per_bin):
        for part in (slice(0, 1), slice(1, 3)):
            row = {name: np.array(values[part]) for name, values in sample.items()}
            yield row | {"seq_lengths": [len(row["input_ids"])]}

    (orphan,) = failing_checks(cut, padded, Case([sample], 2))["orphan_fragments"]
    assert (orphan.row, orphan.expected, orphan.found) == (1, "starts at token 0", "starts at token 1")


def test_an_index_behind_foreign_tokens_may_be_any():
    def with_foreign(samples, max_tokens_per_bin):
        foreign = {"input_ids": np.array([70, 71]), "labels": np.array([-100, 71]), "seq_lengths": [2]}
        rows = list(pack(samples, max_tokens_per_bin))
        yield from [rows[0], foreign, rows[1]]

    def collate(rows):
        batch = flat(rows)
        batch["seq_idx"][0, 7:] = last  # of c; a, b and the foreign tokens have 0, 1 and 2
        return batch

    last = 7
    failing = failing_checks(with_foreign, collate, Case(SAMPLES, 5, names=["a", "b", "c"]), batch_size=3)
    assert "sequence_indices" not in failing


@pytest.mark.parametrize("foreign", [[70, 71], [70, 71, 72, 73]])
def test_foreign_tokens_are_told_whatever_their_number(foreign):
    def with_foreign(samples, max_tokens_per_bin):
        yield from pack(samples, max_tokens_per_bin)
        yield {
            "input_ids": np.array(foreign),
            "labels": np.array([-100, *foreign[1:]]),
            "seq_lengths": [len(foreign)],
        }

    failing = failing_checks(with_foreign, flat, Case(SAMPLES, 5))
    assert [(w.row, w.found) for w in failing["sample_conservation"]] == [
        (2, f"{len(foreign)} tokens that no sample has")
    ]
