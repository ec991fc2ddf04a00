"""What the template writes around the texts of a conversation, read off what it renders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_longctx.tokens.template import RenderError

if TYPE_CHECKING:
    from pytest_longctx.tokens.template import Messages, Renderer

_USER, _ASSISTANT, _OTHER = "Qzuser7", "Qzanswer7", "Qzother7"
_LEAD = 16


@dataclass(frozen=True, slots=True)
class Scaffold:
    """The template's own words.

    `terminators` end an assistant turn, stripped of white space; none where turns end with nothing.
    `leads` stand right in front of the text of a role, so that a one-letter text is not found in a header.
    """

    terminators: tuple[str, ...]
    leads: dict[str, str]


def read_scaffold(renderer: Renderer) -> Scaffold:
    """Learn the scaffold from a probe conversation; what the template refuses stays unknown.

    Behind the last answer stands only the terminator. Behind an earlier one stand the terminator and the
    header of the next user turn, which also stands in front of the first user text.
    """
    leads = {role: _lead(renderer, role) for role in ("system", "developer", "tool")}
    turn: Messages = [{"role": "user", "content": _USER}, {"role": "assistant", "content": _ASSISTANT}]
    text = _text(renderer, turn + turn)
    if text.count(_USER) != 2 or text.count(_ASSISTANT) != 2:
        return Scaffold((), leads)
    before, _, rest = text.partition(_USER)
    between, _, rest = rest.partition(_ASSISTANT)[2].partition(_USER)
    last = rest.partition(_ASSISTANT)[2]
    header = between[len(between) - _common_suffix(before, between) :]
    special = list(renderer.tokenizer.backend.added_tokens_encoder)
    earlier = between[: len(between) - len(header)] or _leading(between, before, special)
    endings = {earlier.strip(), last.strip()} - {""}
    return Scaffold(tuple(sorted(endings)), {**leads, "user": header[-_LEAD:]})


def _text(renderer: Renderer, messages: Messages) -> str:
    try:
        return renderer.render(messages).text
    except RenderError:
        return ""


def _lead(renderer: Renderer, role: str) -> str:
    call: dict[str, Any] = {"type": "function", "function": {"name": "f", "arguments": {}}, "id": "call00000"}
    user: Messages = [{"role": "user", "content": _USER}]
    answer: Messages = [{"role": "assistant", "content": _ASSISTANT}]
    other: Messages = [{"role": role, "content": _OTHER, "tool_call_id": "call00000"}]
    calling: Messages = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    messages = [*user, *calling, *other, *answer] if role == "tool" else [*other, *user, *answer]
    before, found, _ = _text(renderer, messages).partition(_OTHER)
    return before[-_LEAD:] if found else ""


def _common_suffix(left: str, right: str) -> int:
    pairs = zip(reversed(left), reversed(right), strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _leading(between: str, before: str, special: list[str]) -> str:
    """The special token that `between` starts with, unless it is the one that opens every turn."""
    token = max((token for token in special if between.startswith(token)), key=len, default="")
    bos = max((token for token in special if before.startswith(token)), key=len, default="")
    return "" if before.startswith((token, bos + token)) else token
