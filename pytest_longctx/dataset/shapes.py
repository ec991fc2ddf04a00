"""The shapes of rows: how each is recognised, and how a row of it becomes the fields of a conversation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_longctx.dataset.content import checked_messages, has_value_parts
from pytest_longctx.dataset.fault import RowError, json_type, missing_keys
from pytest_longctx.dataset.foreign import alpaca, sharegpt
from pytest_longctx.dataset.numbers import lengths, tokenized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape by name: the keys that its rows need, and the conversion, which raises `RowError`."""

    name: str
    keys: str
    convert: Callable[[Mapping[str, Any]], Fields]
    foreign: str = ""  # what the conversion does, where the trainer would not do it


def _messages(row: Mapping[str, Any]) -> Fields:
    key = messages_key(row)
    return {"messages": checked_messages(row[key], key)}


def messages_key(row: Mapping[str, Any]) -> str:
    """`messages`, else `conversations`, which trainers read the same way; raises `RowError` without."""
    for key in ("messages", "conversations"):
        if row.get(key) is not None:
            return key
    raise missing_keys(row, "messages")


def _prompt_completion(row: Mapping[str, Any]) -> Fields:
    prompt, completion = row.get("prompt"), row.get("completion")
    if prompt is None or completion is None:
        raise missing_keys(row, "prompt", "completion")
    if not prompt and not completion:
        raise RowError("empty_row", "prompt and completion are both empty")
    if type(prompt) is str and type(completion) is str:
        return {"prompt": prompt, "completion": completion}
    if type(prompt) is list and type(completion) is list:
        return {key: checked_messages(row[key], key) for key in ("prompt", "completion")}
    found = f"prompt is {json_type(prompt)} and completion is {json_type(completion)}"
    raise RowError("bad_content", f"{found}; expected two texts or two lists of messages")


def _text(row: Mapping[str, Any]) -> Fields:
    text = row.get("text")
    if text is None:
        raise missing_keys(row, "text")
    if type(text) is not str:
        raise RowError("bad_content", f"text is {json_type(text)}; expected a text")
    if not text:
        raise RowError("empty_row", "text is empty")
    return {"text": text}


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("messages", "messages: [{role, content}]", _messages),
        Shape("sharegpt", "conversations: [{from, value}]", sharegpt, "from/value converted to messages"),
        Shape("alpaca", "instruction, input, output", alpaca, "instruction/output converted to messages"),
        Shape("prompt_completion", "prompt, completion", _prompt_completion),
        Shape("text", "text", _text),
        Shape("tokenized", "input_ids and labels, assistant_masks or completion_mask", tokenized),
        Shape("lengths", "prompt_tokens, supervised_tokens", lengths),
    )
}
WITH_TOOLS = frozenset({"messages", "sharegpt", "alpaca", "prompt_completion"})


def recognise(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """How many of the rows look like each shape."""
    return Counter(name for row in rows if (name := _shape_of(row)))


def _shape_of(row: Mapping[str, Any]) -> str:
    """The shape of one row, or ""; where a row has the keys of several, TRL's order decides."""
    keys = {key for key, value in row.items() if value is not None}
    if "input_ids" in keys:
        return "tokenized"
    if {"prompt", "completion"} <= keys:
        return "prompt_completion"
    if keys & {"messages", "conversations"}:
        return "sharegpt" if _has_from(row) else "messages"
    if {"instruction", "output"} <= keys:
        return "alpaca"
    if {"prompt_tokens", "supervised_tokens"} <= keys:
        return "lengths"
    return "text" if "text" in keys else ""


def _has_from(row: Mapping[str, Any]) -> bool:
    messages = row[messages_key(row)]
    first = messages[0] if type(messages) is list and messages else None
    return type(first) is dict and "from" in first and "role" not in first


def has_foreign_parts(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a row of shape `messages` keeps text in parts under `value`."""
    return any(has_value_parts(row.get("messages") or row.get("conversations")) for row in rows)
