from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.contract import Contract, dump
from pytest_longctx.contract.yaml import parse


@pytest.mark.parametrize(
    "text",
    [
        "",
        "window: {target_context_len: 8, limits: {max_overflow_ratio: 1e-5}}",
        "packing: {max_tokens_per_bin: 8, packer: ffd, trainer: null, feed: all}",
        "packing: {max_tokens_per_bin: 8, invariants: {except: [capacity], reason: x}}",
        "lengths: {short_threshold: 1, long_threshold: 2, limits: {max_tokens: 9}, warn: {}}",
    ],
)
def test_a_dump_loads_to_the_same_contract(loads, load, text):
    first = loads(text)
    second = load(dump(first))
    assert second.model_dump() == first.model_dump()
    assert dump(second) == dump(first)


def test_only_set_keys_are_dumped(loads):
    assert dump(loads("window: {target_context_len: 8}")) == (
        "contract: 1\ntokenizer:\n  path: tok\ndataset:\n  path: a.jsonl\nwindow:\n  target_context_len: 8\n"
    )


def test_letters_of_all_alphabets_are_dumped_as_they_are(loads):
    assert "description: größe 大\n" in dump(loads("description: größe 大\n"))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
    | st.sampled_from(
        ["1e-3", "0o17", "0x1f", "no", "~", "", "null", "12:30", ".inf", "1_0", "2027-01-31", "<<", "9" * 50]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1~", max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(VALUES)
@settings(deadline=None, max_examples=200)
def test_any_value_survives(value):
    data = {
        "contract": 1,
        "tokenizer": {"path": "t", "template_kwargs": {"value": value}},
        "dataset": {"path": "d"},
    }
    document = parse(dump(Contract.model_validate(data)))
    assert document.faults == []
    assert document.data == data


@pytest.mark.parametrize(
    "text", ["\x85", "a\u2028b", "\r\n", " x\n\n y ", "\ufeff", "\U0001f600", "a: b # c"]
)
def test_odd_text_survives(text):
    data = {"contract": 1, "name": f"n{text}", "tokenizer": {"path": "t"}, "dataset": {"path": "d"}}
    assert parse(dump(Contract.model_validate(data))).data == data


@pytest.mark.parametrize("text", ["1e999", "0o" + "7" * 30])
def test_text_that_only_we_take_for_a_number_out_of_range_survives(text):
    data = {"contract": 1, "name": text, "tokenizer": {"path": "t"}, "dataset": {"path": "d"}}
    assert parse(dump(Contract.model_validate(data))).data == data
