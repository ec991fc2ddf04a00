"""What only a broken tokenizer or trainer shows, on samples that are made by hand."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.contract import SupervisionSection
from pytest_longctx.dataset import Conversation
from pytest_longctx.tokens.build import make_sampler
from pytest_longctx.tokens.findings import Findings
from pytest_longctx.tokens.inspect import AnyOf, Inspector
from pytest_longctx.tokens.inspect_rows import _has_word
from tests.tokens.characters import (
    CHATML,
    END,
    EOS,
    UNK,
    characters,
    chat,
    findings_of,
    sample_of,
    witness_of,
)


def seen(sample, tokenizer=None, **terms):
    inspector = Inspector(make_sampler(tokenizer or characters(), SupervisionSection(**terms)))
    findings = Findings()
    for check, witness in inspector.offences(sample):
        findings.add(check, witness)
    return findings


def test_a_sound_conversation_shows_nothing():
    assert findings_of(chat("hi", "yo", "so", "yes")) == set()


def test_offsets_that_run_backwards():
    sample = sample_of(chat("hi", "yo"))
    swapped = sample.offsets.copy()
    swapped[[7, 8]] = swapped[[8, 7]]
    findings = seen(dataclasses.replace(sample, offsets=swapped))
    assert findings.counts == {"tokenizer::offsets": 1}
    assert findings.witnesses["tokenizer::offsets"][0].position == 8


@pytest.mark.parametrize("text", ["🙂", "e\u0301", "👩‍👩‍👧‍👦", "שלום", "\u200b"])
def test_offsets_cover_characters_of_all_kinds(text):
    assert findings_of(chat(text, text)) == set()


def test_counts_of_turns():
    sample = sample_of(chat("hi", "yo", "so", "yes"), turns="last")
    witness = seen(sample, turns="all").witnesses["supervision::turns"][0]
    assert witness.note == "answer tokens per assistant turn [0, 3]; the policy trains turns [0, 1]"
    assert (witness.expected, witness.found) == (2, 1)


def test_a_supervised_prompt():
    sample = sample_of(chat("hello", "yo"))
    kind = sample.kind.copy()
    kind[7:9] = 2
    witness = seen(dataclasses.replace(sample, kind=kind)).witnesses["supervision::roles"][0]
    assert (witness.found, witness.position) == ("role user", 7)


def test_a_masked_end_in_tokenized_rows():
    """The pad token is the end of turn, so a collator masked the real ones: labels 10, 11 and not the end."""
    row = Conversation("row", "f", 1, input_ids=[5, 10, 11, END, 6], labels=[-100, 10, 11, -100, -100])
    witness = witness_of("supervision::turn_end", row, shape="tokenized")
    assert witness.position == 3
    kept = Conversation("row", "f", 1, input_ids=[5, 10, 11, END, 6], labels=[-100, 10, 11, END, -100])
    assert findings_of(kept, shape="tokenized") == set()


@pytest.mark.parametrize("tail", [[END], [END, 10], [EOS]])
def test_tokenized_rows_that_are_cut_in_an_answer(tail):
    """The labels reach the end of the row: of a whole one it is the end of turn, and the template's break."""
    whole = Conversation("row", "f", 1, input_ids=[5, 12, 11, *tail], labels=[-100, 12, 11, *tail])
    assert findings_of(whole, shape="tokenized") == set()
    cut = Conversation("row", "f", 1, input_ids=[5, 12, 11], labels=[-100, 12, 11])
    assert findings_of(cut, shape="tokenized") == {"supervision::turn_end"}
    witness = witness_of("supervision::turn_end", cut, shape="tokenized")
    assert (witness.position, witness.expected) == (2, f"one of the ids {EOS}, {END}")
    assert findings_of(cut, shape="tokenized", turns="every_token") == set()


def test_tokenized_rows_that_are_padded_behind_a_cut_answer():
    tokenizer = characters()
    tokenizer.backend.pad_token = "<unk>"
    cut = Conversation("row", "f", 1, input_ids=[5, 12, 11, UNK, UNK], labels=[-100, 12, 11, -100, -100])
    witness = witness_of("supervision::turn_end", cut, tokenizer, shape="tokenized")
    assert (witness.position, witness.found) == (2, "no end of turn")
    whole = Conversation("row", "f", 1, input_ids=[5, 12, END, UNK], labels=[-100, 12, END, -100])
    assert findings_of(whole, tokenizer, shape="tokenized") == set()
    inside = Conversation("row", "f", 1, input_ids=[5, 12, UNK, 6], labels=[-100, 12, -100, -100])
    assert findings_of(inside, tokenizer, shape="tokenized") == set()


@pytest.mark.parametrize(
    "template", [None, "{{ raise_exception('no') }}", CHATML.replace("<|im_end|>", "~~")]
)
def test_a_row_that_ends_anywhere_where_the_end_of_turns_is_no_known_id(template):
    row = Conversation("row", "f", 1, input_ids=[5, 12, 11], labels=[-100, 12, 11])
    assert findings_of(row, characters(template), shape="tokenized") == set()


def test_shifted_labels():
    row = Conversation("row", "f", 1, input_ids=[5, 10, 11], labels=[10, 11, -100])
    witness = witness_of("supervision::labels_match_ids", row, shape="tokenized")
    assert (witness.position, witness.expected, witness.found) == (0, 5, 10)


def test_one_witness_a_row_and_so_many_in_all(monkeypatch):
    monkeypatch.setattr("pytest_longctx.tokens.findings.MOST_WITNESSES", 1000)
    rows = [chat("hi", "", name=str(number)) for number in range(1005)]
    from pytest_longctx.tokens.build import measure

    found = measure(rows, "messages", characters(), SupervisionSection()).findings
    assert found.counts["supervision::present"] == 1005
    assert len(found.witnesses["supervision::present"]) == 1000


@pytest.mark.parametrize(
    ("place", "changes"),
    [
        ("message 1, role assistant", {"content": "yo </s>"}),
        ("message 1, role assistant, reasoning", {"reasoning_content": "so </s>"}),
        (
            "message 1, role assistant, tool call",
            {"tool_calls": [{"function": {"name": "</s>", "arguments": {}}}]},
        ),
        (
            "message 1, role assistant, tool call",
            {"tool_calls": [{"function": {"name": "f", "arguments": {"a": [{"</s>": 1}]}}}]},
        ),
        (
            "message 1, role assistant, tool call",
            {"function_call": {"name": "f", "arguments": '{"a": "</s>"}'}},
        ),
    ],
)
def test_a_special_token_is_found_in_every_text_of_a_message(place, changes):
    witness = witness_of(
        "dataset::control_tokens", chat("hi", {"role": "assistant", "content": "", **changes})
    )
    assert (witness.note, witness.found) == (place, "</s>")


def test_dates_and_bytes_as_parquet_has_them_are_no_obstacle():
    odd = {"made": datetime(2026, 11, 30, tzinfo=timezone.utc), "raw": b"</s>"}
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": odd}}]}
    witness = witness_of("dataset::control_tokens", chat("hi", call))
    assert witness.note == "message 1, role assistant, tool call"
    parts = {"role": "assistant", "content": [{"type": "text", "text": "yo", "made": odd["made"]}]}
    tools = [{"type": "function", "function": {"name": "f", "made": odd["made"]}}]
    assert "dataset::content_survives" not in findings_of(chat("hi", parts, tools=tools))


def test_a_special_token_is_found_in_the_definitions_of_tools():
    tools = [{"type": "function", "function": {"name": "f"}}, {"enum": ["a", "<|im_end|>"]}]
    witness = witness_of("dataset::control_tokens", chat("hi", "yo", tools=tools))
    assert (witness.note, witness.found) == ("tools", "<|im_end|>")
    assert "dataset::control_tokens" not in findings_of(chat("hi", "yo", tools=tools[:1]))


def tool(name, **keys):
    return {"type": "function", "function": {"name": name, **keys}}


NO_TOOLS = CHATML.replace("(tool | tojson)", "''")
TOOLS_IN_USER = (
    "{% for m in messages %}<|im_start|>{{ m.role }}:{% if m.role == 'user' %}{{ tools | tojson }}"
    "{{ m.content }}<|im_end|>{% else %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}"
    "{% endif %}{% endfor %}"
)
CALLS_F = {"role": "assistant", "content": "", "tool_calls": [tool("f_one", arguments={"a": 1})]}


@pytest.mark.parametrize(
    ("template", "texts", "tools", "shown"),
    [
        (CHATML, ("hi", CALLS_F), [tool("f_one")], None),
        (NO_TOOLS, ("hi", "yo"), [tool("f_one"), {"name": "f_two"}], 0),
        # What assistants and tools say of a tool is no definition.
        (NO_TOOLS, ("hi", CALLS_F), [tool("f_one")], 0),
        (NO_TOOLS, ("hi", CALLS_F, {"role": "tool", "content": "f_one"}, "f_one."), [tool("f_one")], 0),
        # A system message may hold it, were it in the template's place.
        (
            NO_TOOLS,
            ({"role": "system", "content": "f_one: {}"}, {"role": "user", "content": "hi"}, CALLS_F),
            [tool("f_one")],
            None,
        ),
        (NO_TOOLS.replace("# Tools", "f_two"), ("hi", CALLS_F), [tool("f_one"), {"name": "f_two"}], 1),
        (NO_TOOLS.replace("# Tools", "f_one_b a_f_one"), ("hi", "yo"), [tool("f_one")], 0),
        # A user's text that is found inside a definition does not hide it.
        (TOOLS_IN_USER, ("one", "yo"), [tool("f_one")], None),
        # Tools without a name, or none at all, cannot be missed.
        (NO_TOOLS, ("hi", "yo"), [], None),
        (NO_TOOLS, ("hi", "yo"), [{"a": "f"}, {"function": "f"}, {"function": None}, tool(7)], None),
    ],
)
def test_tools_that_the_template_leaves_out(template, texts, tools, shown):
    row = chat(*texts, tools=tools)
    lost = {"dataset::content_survives"} if shown is not None else set()
    assert findings_of(row, characters(template)) == lost
    if lost:
        found = witness_of("dataset::content_survives", row, characters(template))
        assert (found.expected, found.found) == (len(tools), shown)
        assert found.note == "tools: the template leaves definitions out"


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("a f b", True),
        ("f", True),
        ("\u4f7f\u7528f\u548cg", True),
        ("of", False),
        ("f1", False),
        ("f_", False),
    ],
)
def test_the_name_of_a_tool_is_a_word_of_its_own(text, stands):
    assert _has_word(text, "f") is stands


def calling(arguments):
    call = {"function": {"name": "f", "arguments": arguments}}
    return chat('"{}".format', {"role": "assistant", "content": 'say "{}"', "tool_calls": [call]})


@pytest.mark.parametrize("arguments", ["{}", "{\n}"])
def test_arguments_without_quotes_that_become_a_string(arguments):
    quoting = CHATML.replace("function.arguments if function.arguments is string else ", "")
    assert "dataset::tool_arguments" in findings_of(calling(arguments), characters(quoting))
    assert "dataset::tool_arguments" not in findings_of(calling(arguments))
    assert "dataset::tool_arguments" not in findings_of(calling({}), characters(quoting))


@given(st.text("<|ab> ", max_size=12), st.lists(st.text("<|ab> ", max_size=4), max_size=6))
@settings(deadline=None, max_examples=300)
def test_the_first_of_many_tokens_is_found(text, tokens):
    wanted = [token for token in tokens if token.strip()]
    places = ((text.find(token), -len(token), token) for token in wanted if token in text)
    expected = min(places, default=(0, 0, None))[2]
    assert AnyOf(tokens).search(text) == expected


def test_witnesses_are_plain_values():
    rows = chat(
        "hi <|im_end|>",
        {"role": "assistant", "content": "", "weight": 0.5},
        "x",
        "y",
        {"role": "user", "content": "z"},
    )
    inspector = seen(sample_of(rows))
    for witnesses in inspector.witnesses.values():
        for witness in witnesses:
            values = dataclasses.astuple(witness)
            assert all(value is None or type(value) in (str, int, float) for value in values)
            assert not any(isinstance(value, np.generic) for value in values)
