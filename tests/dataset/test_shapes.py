from __future__ import annotations

from collections import Counter

import pytest

from pytest_longctx.dataset.fault import RowError
from pytest_longctx.dataset.shapes import SHAPES, recognise

USER = {"role": "user", "content": "q"}
ASSISTANT = {"role": "assistant", "content": "a"}
CALL = {"type": "function", "function": {"name": "f", "arguments": {"x": 1, "a": True}}}


def convert(shape, row):
    return SHAPES[shape].convert(row)


def fault(shape, row):
    with pytest.raises(RowError) as caught:
        convert(shape, row)
    return caught.value


@pytest.mark.parametrize(
    ("row", "shape"),
    [
        ({"messages": [USER]}, "messages"),
        ({"conversations": [USER]}, "messages"),
        ({"messages": [{"from": "human", "value": "q"}]}, "sharegpt"),
        ({"conversations": [{"from": "human", "value": "q"}], "tools": "[]"}, "sharegpt"),
        ({"instruction": "i", "input": "", "output": "o"}, "alpaca"),
        ({"instruction": "i", "output": "o", "text": "i o"}, "alpaca"),
        ({"prompt": "p", "completion": "c"}, "prompt_completion"),
        ({"prompt": [USER], "completion": [ASSISTANT], "messages": [USER, ASSISTANT]}, "prompt_completion"),
        ({"prompt": "p", "prompt_id": "1", "messages": [USER]}, "messages"),
        ({"text": "t", "source": "web"}, "text"),
        ({"input_ids": [1], "labels": [1], "text": "t"}, "tokenized"),
        ({"prompt_tokens": 3, "supervised_tokens": 4, "name": "a"}, "lengths"),
        ({"messages": None, "text": "t"}, "text"),
        ({"question": "q", "answer": "a"}, None),
        ({}, None),
    ],
)
def test_recognition(row, shape):
    assert recognise([row]) == Counter([shape] if shape else [])


@pytest.mark.parametrize(
    "messages",
    [
        [USER, {**ASSISTANT, "weight": 0, "reasoning_content": "r"}],
        [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "1", "content": "4"},
        ],
        [USER, {"role": "assistant", "tool_calls": [CALL]}],
        [
            {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "text", "text": ""}]},
            ASSISTANT,
        ],
        [{"role": "user", "content": ["q"]}, {**ASSISTANT, "tool_calls": None}],
        [{"role": "human", "content": "q"}, {"role": "bot", "content": "a"}],
        [USER, USER, ASSISTANT, ASSISTANT],
    ],
)
def test_messages_reach_the_template_as_they_are(messages):
    assert convert("messages", {"messages": messages})["messages"] is messages


def test_parts_with_value_are_converted_and_other_keys_stay():
    row = {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "value": "q"}, {"type": "text", "value": "r"}],
                "loss_weight": 0.0,
            },
            {
                "role": "assistant",
                "content": [{"value": "a", "type": "text", "cache": 1}],
                "loss_weight": 1.0,
            },
        ]
    }
    assert convert("messages", row)["messages"] == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "q"}, {"type": "text", "text": "r"}],
            "loss_weight": 0.0,
        },
        {"role": "assistant", "content": [{"text": "a", "type": "text", "cache": 1}], "loss_weight": 1.0},
    ]
    assert row["messages"][0]["content"][0] == {"type": "text", "value": "q"}


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        ({"a": 1, "b": 2}, "missing_keys", "lacks messages; the row has a, b"),
        ({"messages": None}, "missing_keys", "lacks messages (null); the row has messages"),
        ({"messages": []}, "empty_messages", "messages is empty"),
        ({"messages": "hi"}, "bad_messages", "messages is a text; expected a list of messages"),
        ({"messages": [USER, "hi"]}, "bad_message", "messages[1] is a text; expected an object"),
        (
            {"messages": [{"content": "q"}]},
            "unknown_role",
            "messages[0]: role is missing; the message has content",
        ),
        ({"messages": [{"role": 3, "content": "q"}]}, "unknown_role", "messages[0]: role is a number"),
        (
            {"messages": [{"from": "human", "value": "q"}]},
            "unknown_role",
            "the message has from, value; expected {role, content}",
        ),
        (
            {"messages": [{"role": "user", "content": None}]},
            "null_content",
            "messages[0] (user): content is null",
        ),
        (
            {"messages": [USER, {"role": "assistant"}]},
            "null_content",
            "messages[1] (assistant): content is missing",
        ),
        (
            {"messages": [{"role": "assistant", "content": None, "tool_calls": []}]},
            "null_content",
            "there is no tool call",
        ),
        ({"messages": [{"role": "tool", "content": None, "tool_calls": [CALL]}]}, "null_content", "(tool)"),
        (
            {"messages": [{"role": "user", "content": 7}]},
            "bad_content",
            "content is a number; expected a text or a list",
        ),
        ({"messages": [{"role": "user", "content": {"a": 1}}]}, "bad_content", "content is an object"),
        (
            {"messages": [{"role": "user", "content": [3]}]},
            "bad_content",
            "a part is a number; expected an object",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": None}]}]},
            "bad_content",
            "text of a part is null",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "bad_content",
            "text of a part is missing",
        ),
    ],
)
def test_messages_that_cannot_be_rendered(row, kind, message):
    caught = fault("messages", row)
    assert caught.kind == kind
    assert message in caught.message


@pytest.mark.parametrize("part", ["image", "image_url", "input_audio", "video", "reasoning"])
def test_parts_other_than_text_are_refused_by_name(part):
    content = [{"type": "text", "text": "look"}, {"type": part, part: "https://secret"}]
    caught = fault("messages", {"messages": [USER, {"role": "assistant", "content": content}]})
    assert caught.kind == "not_text"
    assert caught.message == f"messages[1] (assistant): a part has type '{part}'; only text is checked"


def test_prompt_and_completion():
    texts, lists = {"prompt": "", "completion": "c"}, {"prompt": [USER], "completion": [ASSISTANT]}
    assert convert("prompt_completion", texts) == texts
    assert convert("prompt_completion", lists) == lists


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"prompt": "p"}, "missing_keys"),
        ({"prompt": "p", "completion": None}, "missing_keys"),
        ({"prompt": "", "completion": ""}, "empty_row"),
        ({"prompt": [], "completion": []}, "empty_row"),
        ({"prompt": [], "completion": [ASSISTANT]}, "empty_messages"),
        ({"prompt": "p", "completion": [ASSISTANT]}, "bad_content"),
        ({"prompt": [{"role": "user", "content": None}], "completion": [ASSISTANT]}, "null_content"),
    ],
)
def test_prompt_and_completion_that_cannot_be_used(row, kind):
    assert fault("prompt_completion", row).kind == kind


def test_text():
    assert convert("text", {"text": "t"}) == {"text": "t"}
    assert fault("text", {"text": ""}).kind == "empty_row"
    assert fault("text", {"text": None}).kind == "missing_keys"
    assert fault("text", {"text": 3}).message == "text is a number; expected a text"
