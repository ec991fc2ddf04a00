from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_longctx.dataset import Conversation, open_dataset, role_offences

from .conftest import section

FOLDER = os.environ.get("LONGCTX_REAL_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="LONGCTX_REAL_DATA is not set")

SHAPES = {
    "alpaca_en_demo.json": "alpaca",
    "fastchat_dummy_conversation.json": "sharegpt",
    "glaive_toolcall_en_demo.json": "sharegpt",
    "identity.json": "alpaca",
    "v1_sft_demo.jsonl": "messages",
}


def raw(name):
    text = Path(FOLDER, name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if name.endswith("l") else json.loads(text)


def opened(name):
    return open_dataset(section(path=name), SimpleNamespace(resolve=lambda path: Path(FOLDER, path)))


@pytest.mark.parametrize("name", SHAPES)
def test_every_row_is_read_exactly_and_converted(name):
    dataset, expected = opened(name), raw(name)
    assert [json.dumps(row.value) for row in dataset.rows()] == [json.dumps(row) for row in expected]
    conversations = list(dataset)
    assert [type(item) for item in conversations] == [Conversation] * len(expected)
    assert [item.id for item in conversations] == [
        f"{name}:{number}" for number in range(1, len(expected) + 1)
    ]
    assert (dataset.shape, dataset.converted) == (SHAPES[name], True)
    assert [offence for item in conversations for offence in role_offences(item)] == []


def test_texts_survive_the_conversion_of_sharegpt():
    for row, item in zip(
        raw("fastchat_dummy_conversation.json"), opened("fastchat_dummy_conversation.json"), strict=True
    ):
        assert [turn["value"] for turn in row["conversations"]] == [
            message["content"] for message in item.messages
        ]


def test_calls_and_tools_survive_the_conversion():
    for row, item in zip(
        raw("glaive_toolcall_en_demo.json"), opened("glaive_toolcall_en_demo.json"), strict=True
    ):
        assert item.tools == json.loads(row["tools"])
        calls = [
            json.loads(turn["value"]) for turn in row["conversations"] if turn["from"] == "function_call"
        ]
        found = [message["tool_calls"] for message in item.messages if "tool_calls" in message]
        assert found == [[{"type": "function", "function": call}] for call in calls]


def test_parts_and_weights_survive_the_conversion():
    for row, item in zip(raw("v1_sft_demo.jsonl"), opened("v1_sft_demo.jsonl"), strict=True):
        for message, converted in zip(row["messages"], item.messages, strict=True):
            assert [part["value"] for part in message["content"]] == [
                part["text"] for part in converted["content"]
            ]
            assert message["loss_weight"] == converted["loss_weight"]
