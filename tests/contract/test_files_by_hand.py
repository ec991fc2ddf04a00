"""Files of contracts at their limits: how large, of which version, and which key comes first."""

from __future__ import annotations

import pytest

from pytest_longctx.contract.load import _explain
from pytest_longctx.contract.section import Fault

from .conftest import HEAD

MIB = 1024 * 1024


def test_a_mebibyte_is_read_and_no_byte_more(load, problems):
    full = HEAD + "#" * (MIB - len(HEAD) - 1) + "\n"
    assert load(full).dataset.path == "a.jsonl"
    assert problems(full + "\n") == ["1:1: the file is larger than 1 MiB, which no contract is"]


@pytest.mark.parametrize("version", ["0", "-1"])
def test_versions_that_there_never_were(problems, version):
    told = f"1:11: contract: found {version}, expected 1: this release knows no other version"
    assert problems(f"contract: {version}") == [told]


def test_a_key_ahead_of_it_in_the_alphabet(problems):
    assert "2:11: contract: must be the first key of the file" in problems("aaa: 1\n" + HEAD)
    assert [told for told in problems(HEAD + "aaa: 1\n") if told.startswith("4:1: aaa: unknown key")]


def test_only_unknown_keys_are_explained_by_the_nearest():
    fault = Fault(("tokenizre",), "you may not")
    assert _explain(fault) is fault
    assert _explain(Fault(("tokenizre",), "unknown key")).message.endswith("'tokenizer'?")


@pytest.mark.parametrize("shape", ["auto", "messages", "text", "tokenized"])
def test_rows_of_tokens_are_packed_whatever_their_shape(load, shape):
    text = HEAD.replace("a.jsonl}", f"a.jsonl, shape: {shape}}}") + "packing: {max_tokens_per_bin: 8}\n"
    assert load(text).packing.max_tokens_per_bin == 8
