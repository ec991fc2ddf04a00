from __future__ import annotations

import pytest

from pytest_longctx.dataset import Conversation, role_offences


def message(role, content="x", **rest):
    return {"role": role, "content": content, **rest}


def offences(*messages):
    return role_offences(Conversation("a:1", "a", 1, messages=list(messages)))


S, D, U, A, T = (message(role) for role in ("system", "developer", "user", "assistant", "tool"))
CALL = message("assistant", None, tool_calls=[{"function": {"name": "f", "arguments": {}}}])


@pytest.mark.parametrize(
    "messages",
    [
        [U, A],
        [S, U, A],
        [D, U, A, U, A],
        [U, CALL, T, A],
        [U, CALL, T, T, A, U, A],
        [U, CALL, T, CALL, T, A],
        [U, CALL],
        [U, {"role": "assistant", "tool_calls": CALL["tool_calls"]}, message("ipython"), A],
        [U, message("assistant", None, function_call={"name": "f"}), message("function"), A],
        [U, message("assistant", "")],
        [message("user", [{"type": "text", "text": "q"}]), A],
        [message("user", ""), A, U, A],
        [message("user", [{"type": "text", "text": ""}, "q"]), A],
        [message("user", [{"type": "image"}]), A],
    ],
)
def test_conversations_within_the_grammar(messages):
    assert offences(*messages) == []


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([U, U, A], ["message 1: user after user"]),
        ([U, A, A], ["message 2: assistant after assistant"]),
        ([A, U, A], ["message 0: assistant after nothing"]),
        ([S, A], ["message 1: assistant after system"]),
        (
            [U, S, A],
            ["message 1: system after user, it must come first", "message 2: assistant after system"],
        ),
        ([S, D, U, A], ["message 1: developer after system, it must come first"]),
        ([U, T, A], ["message 1: tool after user, without a tool call of the assistant"]),
        ([U, A, T, A], ["message 2: tool after assistant, without a tool call of the assistant"]),
        ([T, A], ["message 0: tool after nothing, without a tool call of the assistant"]),
        ([U, CALL, T, U, A], ["message 3: user after tool"]),
        ([U, CALL, A], ["message 2: assistant after assistant"]),
        ([U, A, U], ["message 2: the last message is user, not assistant"]),
        ([U, CALL, T], ["message 2: the last message is tool, not assistant"]),
        ([S], ["message 0: the last message is system, not assistant"]),
        (
            [message("human"), message("bot")],
            [
                "message 0: unknown role 'human'",
                "message 1: unknown role 'bot'",
                "message 1: the last message is bot, not assistant",
            ],
        ),
        ([U, message("assistant", None)], ["message 1: assistant has null content"]),
        ([message("user", None), A], ["message 0: user has null content"]),
        ([message("user", ""), A], ["user: no text"]),
        (
            [S, message("user", " \n"), A, message("user", [{"type": "text", "text": " "}]), A],
            ["user: no text"],
        ),
        ([message("user", []), A], ["user: no text"]),
        ([U, message("assistant", None, tool_calls=[])], ["message 1: assistant has null content"]),
    ],
)
def test_offences_name_index_and_role(messages, found):
    assert offences(*messages) == found


def test_rows_that_crashed_a_course_hours_in():
    # user, assistant, user, user; and an assistant with null content beside tool calls, which is fine
    assert offences(U, A, U, U) == [
        "message 3: user after user",
        "message 3: the last message is user, not assistant",
    ]
    assert offences(U, CALL, T, A) == []


def test_long_role_names_are_cut():
    assert offences(U, message("x" * 1_000))[0] == f"message 1: unknown role '{'x' * 40}'"


def test_prompt_and_completion_are_one_conversation():
    assert role_offences(Conversation("a:1", "a", 1, prompt=[S, U], completion=[A])) == []
    nothing = message("user", "")
    assert role_offences(Conversation("a:1", "a", 1, prompt=[nothing], completion=[A])) == ["user: no text"]
    assert role_offences(Conversation("a:1", "a", 1, prompt=[U, A], completion=[A])) == [
        "message 2: assistant after assistant"
    ]


def test_shapes_without_messages_have_no_roles():
    assert role_offences(Conversation("a:1", "a", 1, text="t")) == []
    assert role_offences(Conversation("a:1", "a", 1, prompt="p", completion="c")) == []
    assert role_offences(Conversation("a:1", "a", 1, prompt="", completion="c")) == []
    assert role_offences(Conversation("a:1", "a", 1, input_ids=[1], labels=[1])) == []
