"""Messages and their contents: what can reach a chat template at all. Raises `RowError` for the rest."""

from __future__ import annotations

from typing import Any

from pytest_longctx.dataset.conversation import ROLES, is_tool_call
from pytest_longctx.dataset.fault import RowError, found_type, json_type, key_names

Messages = list[dict[str, Any]]


def checked_messages(value: Any, key: str) -> Messages:
    """The messages untouched, save that parts with `value` (LLaMA-Factory's v1 form) get `text` in its place.

    A role that is unknown passes: what a template makes of it is for the checks to see.
    """
    if type(value) is not list:
        raise RowError("bad_messages", f"{key} is {json_type(value)}; expected a list of messages")
    if not value:
        raise RowError("empty_messages", f"{key} is empty")
    foreign = False
    for index, message in enumerate(value):
        if type(message) is not dict:
            raise RowError("bad_message", f"{key}[{index}] is {json_type(message)}; expected an object")
        role = message.get("role")
        if type(role) is not str:
            found = f"role is {found_type(message, 'role')}; the message has {key_names(message)}"
            raise RowError("unknown_role", f"{key}[{index}]: {found}; expected {{role, content}}")
        if type(message.get("content")) is not str:
            foreign |= _check_content(message, f"{key}[{index}] ({_shown(role)})")
    return [_with_text_parts(message) for message in value] if foreign else value


def _shown(role: str) -> str:
    return role if role in ROLES else "unknown role"


def _check_content(message: dict[str, Any], place: str) -> bool:
    """Judge a content that is no plain text; True when a part keeps its text under `value`."""
    content = message.get("content")
    if content is None:
        if is_tool_call(message):
            return False
        raise RowError(
            "null_content", f"{place}: content is {found_type(message, 'content')}, and there is no tool call"
        )
    if type(content) is not list:
        raise RowError(
            "bad_content", f"{place}: content is {json_type(content)}; expected a text or a list of parts"
        )
    return any([_check_part(part, place) for part in content])  # noqa: C419  # judges every part


def _check_part(part: Any, place: str) -> bool:
    if type(part) is str:
        return False
    if type(part) is not dict:
        raise RowError("bad_content", f"{place}: a part is {json_type(part)}; expected an object")
    kind = part.get("type", "text")
    if kind != "text":
        name = kind[:40] if type(kind) is str else json_type(kind)
        raise RowError("not_text", f"{place}: a part has type {name!r}; only text is checked")
    key = "text" if "text" in part or "value" not in part else "value"
    if type(part.get(key)) is not str:
        raise RowError("bad_content", f"{place}: {key} of a part is {found_type(part, key)}; expected a text")
    return key == "value"


def has_value_parts(messages: Any) -> bool:
    """Whether a message keeps its text in parts under `value`; of any value, without an error."""
    if type(messages) is not list:
        return False
    contents = [message.get("content") for message in messages if type(message) is dict]
    parts = [part for content in contents if type(content) is list for part in content]
    return any(type(part) is dict and "value" in part and "text" not in part for part in parts)


def _with_text_parts(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    return (
        {**message, "content": [_text_part(part) for part in content]} if type(content) is list else message
    )


def _text_part(part: Any) -> Any:
    if type(part) is not dict or "text" in part or "value" not in part:
        return part
    return {("text" if key == "value" else key): value for key, value in part.items()}
