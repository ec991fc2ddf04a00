from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.gpu.samples import arm_batch, check_layout, draw_samples, random_rows

VOCABULARY = 200


@pytest.fixture
def samples():
    return draw_samples([3, 5], 2, VOCABULARY, seed=7)


def test_samples_have_a_prompt_of_a_quarter(samples):
    assert samples.ledger.total.tolist() == [3, 5, 3, 5]
    assert samples.ledger.prompt.tolist() == [1, 1, 1, 1]
    assert samples.ledger.supervised.tolist() == [2, 4, 2, 4]
    ids, labels, _ = samples[1]
    assert labels.tolist() == [-100, *ids.tolist()[1:]]


def test_padding_by_hand(samples):
    arm = arm_batch("padding", "sdpa", samples, 2)
    layout = check_layout(arm, samples, VOCABULARY)
    assert layout.offences == {}
    assert (layout.rows, layout.processed_tokens, layout.padding_tokens) == (4, 20, 4)
    assert layout.supervised_tokens == 12
    assert arm.fields["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1] * 5, [1, 1, 1, 0, 0], [1] * 5]


def test_packing_by_hand(samples):
    arm = arm_batch("packing", "sdpa", samples, 2)
    layout = check_layout(arm, samples, VOCABULARY)
    assert layout.offences == {}
    assert (layout.rows, layout.processed_tokens, layout.padding_tokens) == (2, 16, 0)
    assert layout.supervised_tokens == 12
    assert arm.fields["position_ids"].tolist() == [[0, 1, 2, 0, 1, 2, 3, 4]] * 2
    mask = arm.fields["attention_mask"][0, 0]
    seen = [[(i < 3) == (j < 3) and j <= i for j in range(8)] for i in range(8)]
    assert mask.tolist() == seen


@pytest.mark.parametrize("attention", ["eager", "sdpa", "flex_attention", "flash_attention_2"])
def test_every_dialect_holds(samples, attention):
    arm = arm_batch("packing", attention, samples, 2)
    layout = check_layout(arm, samples, VOCABULARY)
    assert layout.offences == {}
    assert layout.supervised_tokens == 12


def test_flash_attention_gets_one_row_with_borders(samples):
    fields = arm_batch("packing", "flash_attention_2", samples, 2).fields
    assert fields["cu_seq_lens_q"].tolist() == [0, 3, 8, 11, 16]
    assert fields["cu_seq_lens_q"].dtype == np.int32
    assert (fields["max_length_q"], fields["max_length_k"]) == (5, 5)
    assert "attention_mask" not in fields


@pytest.mark.parametrize(
    ("field", "change", "check"),
    [
        ("position_ids", lambda v: np.arange(8)[None].repeat(2, 0), "position_ids"),
        ("labels", lambda v: np.where(np.arange(8) == 3, 9, v), "boundary_labels"),
        ("attention_mask", lambda v: np.tril(np.ones_like(v)), "mask_agrees"),
    ],
)
def test_a_wrong_batch_is_found(samples, field, change, check):
    arm = arm_batch("packing", "sdpa", samples, 2)
    wrong = {**arm.fields, field: change(arm.fields[field])}
    layout = check_layout(type(arm)(arm.name, arm.attention, arm.rows, wrong), samples, VOCABULARY)
    assert check in layout.offences
    assert layout.witnesses[0]["arm"] == "packing"


def test_rows_of_the_length_curve_are_all_targets():
    fields = random_rows(2, 6, VOCABULARY, seed=1)
    assert fields["input_ids"].shape == (2, 6)
    assert fields["labels"] is fields["input_ids"]
    assert (fields["input_ids"] < VOCABULARY).all()
    assert (random_rows(2, 6, VOCABULARY, seed=1)["input_ids"] == fields["input_ids"]).all()
