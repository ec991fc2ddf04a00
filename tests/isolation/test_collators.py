"""The collators that people train with, as they are called."""

from __future__ import annotations

import pytest

from pytest_longctx.isolation import ModelTerms, probe
from tests.releases import since

pytest.importorskip("trl")

CALL = {"use_cache": False}
CHECKS = ("logits", "gradients", "standalone", "loss")


def trl_collator(**terms):
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    collate = DataCollatorForLanguageModeling(pad_token_id=0, **terms)
    return lambda samples: collate(
        [
            {
                "input_ids": [int(i) for ids in samples for i in ids],
                "seq_lengths": [len(ids) for ids in samples],
            }
        ]
    )


def flattening(samples):
    from transformers import DataCollatorWithFlattening

    collate = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True)
    return collate([{"input_ids": ids.tolist()} for ids in samples])


@pytest.mark.parametrize(
    "make_batch",
    [trl_collator(padding_free=True), trl_collator(padding_free=True, pad_to_multiple_of=8), flattening],
    ids=["trl padding-free", "trl padded to eight", "flattening"],
)
def test_padding_free_collators_isolate_without_a_cache(make_batch):
    results = probe(ModelTerms("qwen3"), "sdpa", make_batch, CALL, checks=CHECKS)
    assert {name: r.outcome for name, r in results.items()} == dict.fromkeys(CHECKS, "isolated")


@pytest.mark.parametrize(
    ("make_batch", "call"),
    [(trl_collator(padding_free=True), {}), (trl_collator(padding_free=False), CALL)],
    ids=["default cache", "mask of ones instead of positions"],
)
def test_the_same_rows_leak_when_called_otherwise(make_batch, call):
    results = probe(ModelTerms("qwen3"), "sdpa", make_batch, call, checks=CHECKS)
    assert {name: r.outcome for name, r in results.items()} == dict.fromkeys(CHECKS, "leaks")


@since("transformers", "5.24")
def test_packed_rows_without_positions_reach_the_dense_flash_kernel():
    make_batch = trl_collator(padding_free=False)
    found = probe(ModelTerms("qwen3"), "flash_attention_2", make_batch, CALL, layouts=[(5, 2, 4)])["dispatch"]
    assert found.outcome == "leaks"
    assert "the dense kernel over 1 x 11 tokens, each row as one sample" in found.message
    assert "packed samples see each other" in found.message
