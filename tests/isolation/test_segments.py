"""Samples of the probe, their places, and the usual batch forms, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.isolation import FORMS, IsolationError, VocabularyError
from pytest_longctx.isolation.segments import Place, draw_segments, locate

SAMPLES = [np.array([7, 8, 9]), np.array([5]), np.array([6, 4])]


def test_drawn_ids_are_distinct_and_avoid_special_ones():
    segments = draw_segments((3, 1, 4), 25, seed=0, avoid={10, 24})
    ids = np.concatenate([*segments.ids, *segments.other])
    assert [len(s) for s in segments.ids] == [len(s) for s in segments.other] == [3, 1, 4]
    assert len(set(ids.tolist())) == 16
    assert not {0, 1, 2, 3, 10, 24} & set(ids.tolist())
    assert ids.max() < 25


def test_the_smallest_vocabulary_that_will_do():
    draw_segments((2,), 8, seed=0, avoid=())
    with pytest.raises(VocabularyError, match="needs 4 different ids besides special tokens, 3 are free"):
        draw_segments((2,), 7, seed=0, avoid=())


def test_changes():
    segments = draw_segments((4, 3, 1), 99, seed=1, avoid=())
    changed = segments.changed({1})
    assert [np.array_equal(a, b) for a, b in zip(changed, segments.ids, strict=True)] == [True, False, True]
    halves = segments.changed_from_half()
    same = [(a == b).tolist() for a, b in zip(halves, segments.ids, strict=True)]
    assert same == [[True, True, False, False], [True, True, False], [True]]


def test_places():
    ids = np.array([[0, 5, 7, 8, 9], [6, 4, 0, 0, 0]])
    assert locate(ids, SAMPLES) == [Place(0, 2, 5), Place(0, 1, 2), Place(1, 0, 2)]


def test_places_of_a_sample_given_twice():
    ids = np.array([[7, 8, 9, 7, 8, 9]])
    assert locate(ids, [SAMPLES[0], SAMPLES[0]]) == [Place(0, 0, 3), Place(0, 3, 6)]
    with pytest.raises(IsolationError, match="2 times, expected 1"):
        locate(ids, [SAMPLES[0]])


def test_a_sample_cut_in_two_is_not_found():
    with pytest.raises(IsolationError, match=r"segment 0 \(3 tokens\) 0 times"):
        locate(np.array([[7, 8], [9, 0]]), [SAMPLES[0]])


def test_position_ids():
    batch = FORMS["position_ids"](SAMPLES)
    assert batch["input_ids"].tolist() == [[7, 8, 9, 5, 6, 4]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 0, 1]]
    assert batch["labels"].tolist() == [[-100, 8, 9, -100, -100, 4]]


def test_padding_free():
    batch = FORMS["padding_free"](SAMPLES)
    assert batch["cu_seq_lens_q"].tolist() == batch["cu_seq_lens_k"].tolist() == [0, 3, 4, 6]
    assert batch["cu_seq_lens_q"].dtype == np.int32
    assert batch["max_length_q"] == batch["max_length_k"] == 3
    assert batch["seq_idx"].tolist() == [[0, 0, 0, 1, 2, 2]]
    assert set(FORMS["cumulative_only"](SAMPLES)) == set(batch) - {"position_ids"}


def test_masks():
    assert FORMS["ones_mask"](SAMPLES)["attention_mask"].tolist() == [[1] * 6]
    assert FORMS["segment_mask"](SAMPLES)["attention_mask"].tolist() == [[1, 1, 1, 2, 3, 3]]
    seen = FORMS["bool_block_mask"](SAMPLES)["attention_mask"]
    assert seen.shape == (1, 1, 6, 6)
    assert seen[0, 0].astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1, 1],
    ]
    additive = FORMS["additive_block_mask"](SAMPLES)["attention_mask"]
    assert additive.dtype == np.float32
    assert np.array_equal(additive == 0, seen)


def test_one_a_row():
    batch = FORMS["one_a_row"](SAMPLES)
    assert batch["input_ids"].tolist() == [[7, 8, 9], [5, 0, 0], [6, 4, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    assert batch["labels"].tolist() == [[7, 8, 9], [5, -100, -100], [6, 4, -100]]


def test_two_rows():
    batch = FORMS["two_rows"](SAMPLES)
    assert batch["input_ids"].tolist() == [[7, 8, 9], [5, 6, 4]]
    assert batch["position_ids"].tolist() == [[0, 1, 2], [0, 0, 1]]
    uneven = FORMS["two_rows"](SAMPLES[:2])
    assert uneven["input_ids"].tolist() == [[7, 8, 9], [5, 0, 0]]
    assert uneven["labels"].tolist() == [[-100, 8, 9], [-100, -100, -100]]
