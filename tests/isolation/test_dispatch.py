"""The plain kernels against torch's own attention, and that nothing stays behind."""

from __future__ import annotations

import pytest
import torch
from transformers import AttentionInterface, modeling_flash_attention_utils
from transformers.masking_utils import AttentionMaskInterface

from pytest_longctx.isolation import UnavailableError
from pytest_longctx.isolation.dispatch import Record, plain_flash
from pytest_longctx.isolation.models import PLAIN_FLASH


def states(tokens, heads, seed):
    return torch.randn(tokens, heads, 8, generator=torch.Generator().manual_seed(seed))


def reference(query, key, value, mask):
    out = torch.nn.functional.scaled_dot_product_attention(
        *(t.transpose(0, 1)[None] for t in (query, key, value)), attn_mask=mask, enable_gqa=True
    )
    return out[0].transpose(0, 1)


def test_varlen_is_attention_within_the_bounds():
    query, key, value = states(7, 4, 0), states(7, 2, 1), states(7, 2, 2)
    numbers = torch.tensor([0, 0, 0, 1, 2, 2, 2])
    mask = (numbers[:, None] == numbers) & torch.ones(7, 7).tril().bool()
    bounds = torch.tensor([0, 3, 4, 7], dtype=torch.int32)
    record = Record()
    out = record.varlen(query, key, value, bounds, bounds, causal=True, softmax_scale=None, max_seqlen_q=3)
    torch.testing.assert_close(out, reference(query, key, value, mask))
    assert record.calls == [{"kernel": "varlen", "cu_seq_lens": [0, 3, 4, 7], "max_length": 3, "tokens": 7}]


@pytest.mark.parametrize("window", [1, 3])
def test_dense_with_a_window(window):
    query, key, value = (states(6, 2, seed) for seed in range(3))
    ages = torch.arange(6)[:, None] - torch.arange(6)
    mask = (ages >= 0) & (ages < window)
    record = Record()
    terms = {"causal": True, "softmax_scale": None, "window_size": (window - 1, window - 1)}
    out = record.dense(query[None], key[None], value[None], **terms)
    torch.testing.assert_close(out[0], reference(query, key, value, mask))


def test_a_sink_takes_its_share():
    query, key, value = states(1, 1, 0), states(1, 1, 1), torch.ones(1, 1, 8)
    score = float((query * key).sum()) * 8**-0.5
    out = Record().dense(
        query[None], key[None], value[None], causal=True, softmax_scale=None, s_aux=torch.tensor([score])
    )
    torch.testing.assert_close(out, torch.full((1, 1, 1, 8), 0.5))  # as large as the only score: one half


def test_nothing_stays_registered():
    load = modeling_flash_attention_utils.lazy_import_flash_attention
    with plain_flash():
        assert PLAIN_FLASH in AttentionInterface()
        assert modeling_flash_attention_utils.lazy_import_flash_attention is not load
    assert PLAIN_FLASH not in AttentionInterface()
    assert PLAIN_FLASH not in AttentionMaskInterface()
    assert modeling_flash_attention_utils.lazy_import_flash_attention is load


def test_another_transformers_is_reported(monkeypatch):
    monkeypatch.delattr(modeling_flash_attention_utils, "lazy_import_flash_attention")
    with pytest.raises(UnavailableError, match="in a way that the probe does not know"), plain_flash():
        pass
