"""Shapes that no trainer's template reads as they are: sharegpt and alpaca → messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_longctx.dataset.fault import RowError, found_type, json_type, key_names, missing_keys
from pytest_longctx.dataset.json_text import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

Message = dict[str, Any]

SHAREGPT_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "assistant": "assistant",
    "function_call": "assistant",
    "tool_call": "assistant",
    "observation": "tool",
    "function_response": "tool",
    "tool": "tool",
}
_CALLS = frozenset({"function_call", "tool_call"})


def sharegpt(row: Mapping[str, Any]) -> dict[str, Any]:
    """Messages of {from, value} and other keys, after a `system` column if no system message leads."""
    key = "conversations" if row.get("conversations") is not None else "messages"
    turns = row.get(key)
    if turns is None:
        raise missing_keys(row, "conversations")
    if type(turns) is not list:
        raise RowError("bad_messages", f"{key} is {json_type(turns)}; expected a list of {{from, value}}")
    if not turns:
        raise RowError("empty_messages", f"{key} is empty")
    messages = [_from_turn(turn, f"{key}[{index}]") for index, turn in enumerate(turns)]
    if messages[0]["role"] == "system":
        return {"messages": messages}
    return {"messages": [*_system(row), *messages]}


def _from_turn(turn: Any, place: str) -> Message:
    if type(turn) is not dict:
        raise RowError("bad_message", f"{place} is {json_type(turn)}; expected an object")
    name = turn.get("from")
    role = SHAREGPT_ROLES.get(name) if type(name) is str else None
    if role is None:
        raise RowError(
            "unknown_role", f"{place}: {_role_found(turn)}; expected one of {', '.join(SHAREGPT_ROLES)}"
        )
    rest = {key: value for key, value in turn.items() if key not in ("from", "value")}
    if name in _CALLS:
        return {"role": role, "tool_calls": _tool_calls(turn.get("value"), place), **rest}
    return {"role": role, "content": _text(turn, "value", f"{place} ({role})"), **rest}


def _role_found(turn: Message) -> str:
    name = turn.get("from")
    return (
        f"from is {name[:40]!r}"
        if type(name) is str
        else f"from is {found_type(turn, 'from')}; it has {key_names(turn)}"
    )


def _text(holder: Mapping[str, Any], key: str, place: str) -> str:
    value = holder.get(key)
    if type(value) is str:
        return value
    kind = "null_content" if value is None else "bad_content"
    raise RowError(kind, f"{place}: {key} is {found_type(holder, key)}; expected a text")


def _tool_calls(value: Any, place: str) -> list[dict[str, Any]]:
    """The calls of a JSON text {name, arguments} or of a list of them, with the arguments as objects."""
    value = _object_of(value, place)
    calls = value if type(value) is list else [value]
    if not calls:
        raise _bad_call(place, "an empty list")
    return [{"type": "function", "function": _function(call, place)} for call in calls]


def _function(call: Any, place: str) -> dict[str, Any]:
    if type(call) is not dict or type(call.get("name")) is not str:
        raise _bad_call(place, "without a name" if type(call) is dict else json_type(call))
    arguments = _object_of(call.get("arguments"), place)
    if type(arguments) is not dict:
        raise _bad_call(place, f"with arguments that are {json_type(arguments)}")
    return {"name": call["name"], "arguments": arguments}


def _object_of(value: Any, place: str) -> Any:
    """A value that may be given as JSON text."""
    if type(value) is not str:
        return value
    parsed = parse(value.encode())
    if isinstance(parsed, RowError):
        raise _bad_call(place, parsed.message)
    return parsed


def _bad_call(place: str, found: str) -> RowError:
    return RowError(
        "bad_tool_call", f"{place}: the function call is {found}; expected {{name, arguments}} with an object"
    )


def _system(row: Mapping[str, Any]) -> list[Message]:
    """The leading message of a `system` column that is neither null nor empty."""
    if not row.get("system"):
        return []
    return [{"role": "system", "content": _text(row, "system", "the row")}]


def alpaca(row: Mapping[str, Any]) -> dict[str, Any]:
    """instruction (+ newline + input if any) → user, output → assistant, after `system` and `history`."""
    if "instruction" not in row or "output" not in row:
        raise missing_keys({key: row[key] for key in row if row[key] is not None}, "instruction", "output")
    instruction, output = _text(row, "instruction", "the row"), _text(row, "output", "the row")
    extra = _text(row, "input", "the row") if row.get("input") else ""
    if not (instruction or extra or output):
        raise RowError("empty_row", "instruction, input and output are all empty")
    user = f"{instruction}\n{extra}" if extra else instruction
    return {"messages": [*_system(row), *_history(row), *_turn(user, output)]}


def _history(row: Mapping[str, Any]) -> list[Message]:
    history = row.get("history") or []
    pairs = history if type(history) is list else [history]
    if not all(type(pair) is list and [type(text) for text in pair] == [str, str] for pair in pairs):
        raise RowError("bad_content", "history: expected a list of [question, answer] texts")
    return [message for question, answer in pairs for message in _turn(question, answer)]


def _turn(user: str, assistant: str) -> tuple[Message, Message]:
    return {"role": "user", "content": user}, {"role": "assistant", "content": assistant}
