"""The texts of a message, in the forms in which chat templates write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN_THINK, CLOSE_THINK = "<think>", "</think>"
TOOL_ROLES = frozenset({"tool", "function", "ipython"})
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")


@dataclass(frozen=True, slots=True)
class Text:
    """One text of a message.

    forms: how a template may write it as a whole, the fullest first. leaves: its parts, each with its forms,
    for templates that write the parts apart (a tool's arguments as XML). kind: content, reasoning or call.
    """

    forms: tuple[str, ...]
    leaves: tuple[tuple[str, ...], ...] = ()
    kind: str = "content"

    @property
    def blank(self) -> bool:
        """Whether it is white space alone: its `size` is 0."""
        parts = [leaf[0] for leaf in self.leaves] or [self.forms[0]]
        return not any(part and not part.isspace() for part in parts)

    @property
    def size(self) -> int:
        """Characters, white space not counted; of the leaves where there are some."""
        return sum(visible(leaf[0]) for leaf in self.leaves) if self.leaves else visible(self.forms[0])


def visible(text: str) -> int:
    """Number of characters that are not white space."""
    return sum(map(len, text.split()))


def plain_text(content: Any) -> str:
    """A content as one text, its parts joined by newlines."""
    return "\n".join(content_parts(content))


def content_parts(content: Any) -> list[str]:
    """The texts of a content: one, or one a part."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part if isinstance(part, str) else str(part.get("text") or "") for part in parts if part]


def source_forms(content: Any) -> dict[str, str]:
    """The first part of a list of parts, as templates that expect a text write it, by language."""
    if not isinstance(content, list) or not content:
        return {}
    first = next((part for part in content if isinstance(part, dict)), content)
    return {"Python": str(first), "JSON": as_json(first)}


def message_texts(message: dict[str, Any]) -> Iterator[Text]:
    """The texts of a message in the order in which templates write them: reasoning, content, tool calls."""
    if reasoning := _reasoning(message):
        yield Text((reasoning,), kind="reasoning")
    role = message.get("role")
    for part in content_parts(message.get("content")):
        # A template may write a tool's result as a JSON string.
        quoted = _quoted(part) if role in TOOL_ROLES else ()
        yield _answer(part) if role == "assistant" else Text((part, *quoted))
    for call in tool_calls(message):
        yield from _call_texts(call)


def says_nothing(answer: str) -> bool:
    """Whether an answer is white space alone, or that and reasoning that is."""
    return not answer.replace(OPEN_THINK, "").replace(CLOSE_THINK, "").strip()


def _answer(part: str) -> Text:
    """A text of the assistant; a template may write the reasoning in it apart."""
    if says_nothing(part):
        return Text(("",))
    head, found, tail = part.partition(CLOSE_THINK)
    if not found:
        return Text((part,))
    reasoning = head.partition(OPEN_THINK)[2] or head
    return Text((part,), tuple((text,) for text in (reasoning, tail) if text.strip()))


def sources(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text of a message in one form only, with what it is: content, reasoning or tool call."""
    yield "content", plain_text(message.get("content"))
    yield "reasoning", _reasoning(message)
    for function in tool_calls(message):
        for text in (function.get("name") or "", function.get("arguments") or ""):
            yield "tool call", text if isinstance(text, str) else as_json(text)


def as_json(value: Any, *, ensure_ascii: bool = False) -> str:
    """JSON of a value of a row; Parquet also holds dates and bytes, which JSON does not know."""
    return json.dumps(value, ensure_ascii=ensure_ascii, default=str)


def _reasoning(message: dict[str, Any]) -> str:
    reasoning = next((message[key] for key in REASONING_KEYS if message.get(key)), "")
    return reasoning if isinstance(reasoning, str) else ""


def tool_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The functions that a message calls: name and arguments each."""
    calls = message.get("tool_calls") or [message.get("function_call")]
    functions = [call.get("function") or call for call in calls if isinstance(call, dict)]
    return [function for function in functions if isinstance(function, dict)]


def _call_texts(function: dict[str, Any]) -> Iterator[Text]:
    if isinstance(function.get("name"), str):
        yield Text((function["name"],), kind="call")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        yield Text((arguments, json.dumps(arguments, ensure_ascii=False)), kind="call")
    elif arguments:
        leaves = tuple(_leaves(arguments))
        yield Text((as_json(arguments), as_json(arguments, ensure_ascii=True)), leaves, "call")


def _quoted(text: str) -> tuple[str, str]:
    return json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]


def _leaves(value: Any) -> Iterator[tuple[str, ...]]:
    """Keys and values of nested arguments in their order, each as JSON, as Python or bare."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (str(key),)
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str):
        yield (value, *_quoted(value))
    else:
        yield (as_json(value), str(value))
