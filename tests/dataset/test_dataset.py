from __future__ import annotations

import gzip
import hashlib
import json

import pytest

from pytest_longctx.dataset import Conversation, Row, RowProblem
from pytest_longctx.errors import DatasetError

CHAT = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_conversations_and_problems_in_file_order_again_and_again(opened, write):
    write("b.jsonl", lines({"messages": CHAT}) + "{\n" + lines({"messages": []}, {"messages": CHAT}))
    (write("x", "").parent / "a.jsonl.gz").write_bytes(gzip.compress(lines({"messages": CHAT}).encode()))
    dataset = opened(path=["b.jsonl", "a.jsonl.gz"])
    found = [(item.id, getattr(item, "kind", "")) for item in dataset]
    assert found == [
        ("b.jsonl:1", ""),
        ("b.jsonl:2", "broken_json"),
        ("b.jsonl:3", "empty_messages"),
        ("b.jsonl:4", ""),
        ("a.jsonl.gz:1", ""),
    ]
    assert list(dataset) == list(dataset)
    assert [path.name for path in dataset.files] == ["b.jsonl", "a.jsonl.gz"]
    assert (dataset.shape, dataset.converted, dataset.note) == ("messages", False, "recognised: messages")


def test_files_of_one_name_have_ids_apart(opened, write):
    write("x/a.jsonl", lines({"text": "1"}))
    write("y/a.jsonl", lines({"text": "2"}))
    assert [item.id for item in opened(path="**/*.jsonl")] == ["x/a.jsonl:1", "y/a.jsonl:1"]


def test_rows_and_convert(opened, write):
    write("a.jsonl", lines({"text": "t", "n": None}))
    dataset = opened()
    (row,) = dataset.rows()
    assert row == Row("a.jsonl:1", "a.jsonl", 1, {"text": "t", "n": None})
    assert dataset.convert(row) == Conversation("a.jsonl:1", "a.jsonl", 1, text="t")


def test_id_column_and_slices(opened, write):
    rows = [
        {"uid": "x", "text": "1", "src": "web"},
        {"uid": "y", "text": "2"},
        {"uid": "x", "text": "3", "src": 4},
    ]
    write(
        "a.jsonl", lines(*rows, {"uid": "z", "text": "4", "src": 4}, {"uid": "w", "text": "5", "src": ["a"]})
    )
    found = [(item.id, getattr(item, "kind", None) or item.slice) for item in opened(id="uid", slices="src")]
    assert found == [("x", "web"), ("y", None), ("x", "duplicate_id"), ("z", "4"), ("w", "bad_slice")]


def test_renamed_columns(opened, write):
    rows = [{"dialog": CHAT, "messages": "unused", "functions": [{"name": "f"}]}]
    write("a.jsonl", lines(*rows))
    dataset = opened(columns={"messages": "dialog", "tools": "functions"})
    (found,) = dataset
    assert (dataset.shape, found.messages, found.tools) == ("messages", CHAT, [{"name": "f"}])
    (raw,) = dataset.rows()
    assert raw.value == rows[0]


def test_renamed_column_that_rows_do_not_have(opened, write):
    write("a.jsonl", lines({"dialog": CHAT}))
    (problem,) = opened(shape="messages", columns={"messages": "dialogue"})
    assert problem == RowProblem(
        "a.jsonl:1", "a.jsonl", 1, "missing_keys", "lacks messages; the row has dialog"
    )


@pytest.mark.parametrize(
    ("tools", "found"),
    [
        (None, None),
        ("", None),
        ("[]", []),
        ('[{"name": "f"}]', [{"name": "f"}]),
        ([{"name": "f"}], [{"name": "f"}]),
        ("[{", "bad_tools"),
        ('{"name": "f"}', "bad_tools"),
        (["f"], "bad_tools"),
        (3, "bad_tools"),
    ],
)
def test_tools(opened, write, tools, found):
    write("a.jsonl", lines({"messages": CHAT, "tools": tools}))
    (item,) = opened()
    assert (item.kind if isinstance(item, RowProblem) else item.tools) == found


@pytest.mark.parametrize(
    ("kwargs", "found"),
    [(None, {}), ({"enable_thinking": False}, {"enable_thinking": False}), ("x", "bad_template_kwargs")],
)
def test_template_kwargs_of_a_row(opened, write, kwargs, found):
    write("a.jsonl", lines({"messages": CHAT, "chat_template_kwargs": kwargs}))
    (item,) = opened()
    assert (item.kind if isinstance(item, RowProblem) else item.template_kwargs) == found


def test_foreign_shapes_are_noted(opened, write):
    write("s.jsonl", lines({"conversations": [{"from": "human", "value": "q"}]}))
    write("v.jsonl", lines({"messages": [{"role": "user", "content": [{"type": "text", "value": "q"}]}]}))
    write("a.jsonl", lines({"instruction": "i", "output": "o"}))
    notes = {
        path: (dataset.note, dataset.converted)
        for path in ("s.jsonl", "v.jsonl", "a.jsonl")
        for dataset in [opened(path=path)]
    }
    assert notes == {
        "s.jsonl": ("recognised: sharegpt; from/value converted to messages", True),
        "v.jsonl": ("recognised: messages; value of content parts converted to text", True),
        "a.jsonl": ("recognised: alpaca; instruction/output converted to messages", True),
    }


def test_the_shape_of_most_of_the_first_rows_is_taken(opened, write):
    write("a.jsonl", "{\n" + lines({"text": "t"}, {"messages": CHAT}, {"messages": CHAT}))
    dataset = opened()
    assert dataset.shape == "messages"
    assert [getattr(item, "kind", "") for item in dataset] == ["broken_json", "missing_keys", "", ""]


def test_declared_shape_is_not_guessed(opened, write):
    write("a.jsonl", lines({"messages": CHAT, "text": "t"}))
    dataset = opened(shape="text")
    assert (dataset.shape, dataset.note, next(iter(dataset)).text) == ("text", "declared: text", "t")


def test_unknown_shape_lists_the_keys_and_the_shapes(opened, write):
    write("a.jsonl", lines({"question": "q", "answer": "a"}))
    with pytest.raises(DatasetError) as caught:
        opened()
    message = str(caught.value)
    assert "none of the known shapes; the first has question, answer" in message
    assert "  sharegpt: conversations: [{from, value}]\n" in message
    assert message.endswith("Set dataset.columns to rename, as in columns: {messages: NAME}")


def test_dataset_without_a_readable_row(opened, write):
    write("a.jsonl", "")
    write("b.jsonl", "{\n{\n")
    dataset = opened()
    assert (dataset.shape, dataset.note, dataset.converted) == ("", "no readable row", False)
    assert [item.kind for item in dataset] == ["empty_file", "broken_json", "broken_json"]


def test_lengths_take_the_name_as_id(opened, write):
    write("a.jsonl", lines({"name": "chat", "prompt_tokens": 3, "supervised_tokens": 4}))
    (item,) = opened()
    assert item == Conversation("chat", "a.jsonl", 1, prompt_tokens=3, supervised_tokens=4)


def test_fingerprint_is_over_sizes_and_bytes(opened, write):
    write("a.jsonl", lines({"text": "a"}))
    write("b.jsonl", lines({"text": "bb"}))
    expected = hashlib.sha256(b'14:{"text": "a"}\n' + b'15:{"text": "bb"}\n').hexdigest()
    assert opened().fingerprint() == expected
    write("b.jsonl", lines({"text": "bc"}))
    assert opened().fingerprint() != expected


def test_missing_file(opened):
    with pytest.raises(DatasetError, match=r"dataset\.path 'gone\.jsonl': no such file, seen from .*"):
        opened(path="gone.jsonl")
