"""A row in one shape, and the grammar of its roles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_ROLES = frozenset({"system", "developer"})
TOOL_ROLES = frozenset({"tool", "ipython", "function"})
ROLES = frozenset({"user", "assistant"}) | FIRST_ROLES | TOOL_ROLES


@dataclass(frozen=True, slots=True)
class Conversation:
    """A row as the trainer hands it to the chat template; the fields of other shapes are None.

    `template_kwargs` are the row's own (`chat_template_kwargs`); `slice` is its value of the slices column.
    """

    id: str
    file: str
    number: int
    messages: list[dict[str, Any]] | None = None
    prompt: list[dict[str, Any]] | str | None = None
    completion: list[dict[str, Any]] | str | None = None
    text: str | None = None
    input_ids: list[int] | None = None
    labels: list[int] | None = None
    prompt_tokens: int | None = None
    supervised_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    slice: str | None = None


def all_messages(conversation: Conversation) -> list[dict[str, Any]]:
    """The messages in order, those of prompt and completion together; empty for shapes without messages."""
    if conversation.messages is not None:
        return conversation.messages
    if isinstance(conversation.prompt, list) and isinstance(conversation.completion, list):
        return conversation.prompt + conversation.completion
    return []


def role_offences(conversation: Conversation) -> list[str]:
    """Where the messages break the grammar of roles: short texts that name index (from 0) and role.

    Grammar: an optional system or developer message, then user and assistant in turn, where an assistant
    message with tool calls may be followed by tool messages and an assistant message; the last message is the
    assistant's. Content may be null only beside tool calls of an assistant. Some user says something.
    """
    messages = all_messages(conversation)
    found = list(_offences(messages)) if messages else []
    return [*found, "user: no text"] if _nobody_asks(messages) else found


def _offences(messages: list[dict[str, Any]]) -> Iterator[str]:
    before: dict[str, Any] = {}
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in ROLES:
            yield f"message {index}: unknown role {str(role)[:40]!r}"
        elif reason := _misplaced(role, before):
            yield f"message {index}: {role} {reason}"
        if message.get("content") is None and not is_tool_call(message):
            yield f"message {index}: {role} has null content"
        before = message
    if before.get("role") != "assistant":
        last = str(before.get("role"))[:40]
        yield f"message {len(messages) - 1}: the last message is {last}, not assistant"


def _nobody_asks(messages: list[dict[str, Any]]) -> bool:
    """Whether there are users and none of them has a text, as of a prompt column that was lost."""
    asked = [message.get("content") for message in messages if message.get("role") == "user"]
    return bool(asked) and all(map(_is_blank, asked))


def _is_blank(content: Any) -> bool:
    """Whether a content is white space alone; null is told apart, and a part that is no text is something."""
    if isinstance(content, list):
        texts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return all(map(_is_blank, texts))
    return isinstance(content, str) and not content.strip()


def _misplaced(role: str, before: dict[str, Any]) -> str:
    """Why the role cannot stand after the message before it ({} at the start); empty when it can."""
    last = before.get("role", "")
    if last and last not in ROLES:
        return ""  # reported there; what may follow an unknown role is not known
    if role in FIRST_ROLES:
        return f"after {last}, it must come first" if last else ""
    if role in TOOL_ROLES:
        called = is_tool_call(before) or last in TOOL_ROLES
        return "" if called else f"after {last or 'nothing'}, without a tool call of the assistant"
    allowed = {"", "assistant", *FIRST_ROLES} if role == "user" else {"user", *TOOL_ROLES}
    return "" if last in allowed else f"after {last or 'nothing'}"


def is_tool_call(message: dict[str, Any]) -> bool:
    """Whether an assistant message calls tools (`function_call` is the older key for one call)."""
    return message.get("role") == "assistant" and bool(
        message.get("tool_calls") or message.get("function_call")
    )
