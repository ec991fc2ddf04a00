from __future__ import annotations

import pytest

from pytest_longctx.dataset.fault import RowError
from pytest_longctx.dataset.foreign import alpaca, sharegpt


def turn(name, value, **rest):
    return {"from": name, "value": value, **rest}


def message(role, content, **rest):
    return {"role": role, "content": content, **rest}


def fault(convert, row):
    with pytest.raises(RowError) as caught:
        convert(row)
    return caught.value


@pytest.mark.parametrize(
    ("name", "role"),
    [
        *((name, "user") for name in ("human", "user")),
        *((name, "assistant") for name in ("gpt", "assistant", "bot", "chatgpt")),
        *((name, "tool") for name in ("tool", "observation", "function_response")),
        ("system", "system"),
    ],
)
def test_usual_role_names(name, role):
    assert sharegpt({"conversations": [turn(name, "x", weight=1)]}) == {
        "messages": [message(role, "x", weight=1)]
    }


def test_function_calls_become_tool_calls_with_objects():
    value = '{"name": "find", "arguments": {"b": [1, 2.5, null, true], "a": "é", "n": 36893488147419103232}}'
    arguments = {"b": [1, 2.5, None, True], "a": "é", "n": 36893488147419103232}
    call = {"type": "function", "function": {"name": "find", "arguments": arguments}}
    messages = sharegpt({"conversations": [turn("function_call", value), turn("observation", "[4]")]})[
        "messages"
    ]
    assert messages == [{"role": "assistant", "tool_calls": [call]}, message("tool", "[4]")]
    assert list(messages[0]["tool_calls"][0]["function"]["arguments"]) == ["b", "a", "n"]


def test_list_of_calls_and_arguments_as_text():
    value = '[{"name": "f", "arguments": "{\\"x\\": 1}"}, {"name": "g", "arguments": {}}]'
    (only,) = sharegpt({"conversations": [turn("function_call", value)]})["messages"]
    functions = [call["function"] for call in only["tool_calls"]]
    assert functions == [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("find(1)", "not JSON: Expecting value at column 1"),
        ("[]", "an empty list"),
        ('"find"', "a text"),
        ('{"arguments": {}}', "without a name"),
        ('{"name": "f"}', "with arguments that are null"),
        ('{"name": "f", "arguments": "x"}', "not JSON: Expecting value at column 1"),
        ('{"name": "f", "arguments": [1]}', "with arguments that are a list"),
        (None, "null"),
    ],
)
def test_function_calls_that_cannot_be_read(value, found):
    caught = fault(sharegpt, {"conversations": [turn("human", "q"), turn("function_call", value)]})
    assert caught.kind == "bad_tool_call"
    assert (
        caught.message
        == f"conversations[1]: the function call is {found}; expected {{name, arguments}} with an object"
    )


def test_system_column_leads_unless_a_system_message_does():
    turns = [turn("human", "q")]
    assert sharegpt({"conversations": turns, "system": "s"})["messages"][0] == message("system", "s")
    assert len(sharegpt({"conversations": turns, "system": ""})["messages"]) == 1
    own = sharegpt({"conversations": [turn("system", "own"), *turns], "system": "s"})["messages"]
    assert own == [message("system", "own"), message("user", "q")]


@pytest.mark.parametrize(
    ("row", "kind", "text"),
    [
        ({"x": 1}, "missing_keys", "lacks conversations; the row has x"),
        ({"conversations": []}, "empty_messages", "conversations is empty"),
        ({"conversations": "q"}, "bad_messages", "conversations is a text"),
        ({"conversations": ["q"]}, "bad_message", "conversations[0] is a text"),
        (
            {"conversations": [turn("narrator", "q")]},
            "unknown_role",
            "conversations[0]: from is 'narrator'; expected one of system, human",
        ),
        (
            {"conversations": [{"role": "user", "content": "q"}]},
            "unknown_role",
            "from is missing; it has role, content",
        ),
        ({"conversations": [turn("human", None)]}, "null_content", "conversations[0] (user): value is null"),
        ({"conversations": [turn("human", 5)]}, "bad_content", "value is a number"),
        ({"conversations": [turn("human", "q")], "system": 5}, "bad_content", "system is a number"),
    ],
)
def test_sharegpt_rows_that_cannot_be_converted(row, kind, text):
    caught = fault(sharegpt, row)
    assert caught.kind == kind
    assert text in caught.message


def test_alpaca():
    row = {"instruction": "i", "input": "", "output": "o"}
    assert alpaca(row) == {"messages": [message("user", "i"), message("assistant", "o")]}
    assert alpaca({"instruction": "i", "output": "o"}) == alpaca(row)
    assert alpaca({**row, "input": None}) == alpaca(row)
    assert alpaca({**row, "input": "x"})["messages"][0] == message("user", "i\nx")


def test_alpaca_with_system_and_history():
    row = {
        "instruction": "i",
        "input": "x",
        "output": "o",
        "system": "s",
        "history": [["q1", "a1"], ["q2", "a2"]],
    }
    assert alpaca(row)["messages"] == [
        message("system", "s"),
        message("user", "q1"),
        message("assistant", "a1"),
        message("user", "q2"),
        message("assistant", "a2"),
        message("user", "i\nx"),
        message("assistant", "o"),
    ]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"instruction": "i"}, "missing_keys"),
        ({"instruction": "i", "output": None}, "null_content"),
        ({"instruction": 1, "output": "o"}, "bad_content"),
        ({"instruction": "i", "input": 3, "output": "o"}, "bad_content"),
        ({"instruction": "", "input": "", "output": ""}, "empty_row"),
        ({"instruction": "i", "output": "o", "history": [["q"]]}, "bad_content"),
        ({"instruction": "i", "output": "o", "history": "q"}, "bad_content"),
    ],
)
def test_alpaca_rows_that_cannot_be_converted(row, kind):
    assert fault(alpaca, row).kind == kind
