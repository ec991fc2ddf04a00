"""Where the texts of a row stand in what the template rendered of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_longctx.tokens.align import Span

CLOSE_THINK = "</think>"
PROMPT_ROLES = frozenset({"system", "developer", "user", "tool", "function", "ipython"})


@dataclass(frozen=True, slots=True)
class Piece:
    """One text of a message, `[start, end)` in characters of the rendering."""

    start: int
    end: int
    message: int
    role: str


@dataclass(frozen=True, slots=True)
class Located:
    """The pieces that were found, in order, and per assistant message the characters that were not."""

    pieces: list[Piece]
    lost: list[tuple[int, int, int]]
    """(message, characters lost, characters in all) for messages that are not prompts, so also for roles that
    the template may not know; white space does not count."""


def locate(
    text: str,
    blocks: Sequence[Span],
    messages: Sequence[dict[str, Any]],
    tools: Sequence[Any] | None,
    leads: Mapping[str, str],
) -> Located:
    """Find every text of the messages in the rendering, in reading order.

    Texts of the assistant are looked for inside the generation blocks first, so that a short answer is not
    mistaken for a word of a header. A template may strip a text: then what is left of it is found.
    """
    finder = _Finder(text, blocks, leads)
    for tool in tools or ():
        finder.place((json.dumps(tool, ensure_ascii=False),), -1, "tools", inside=False)
    lost = []
    for index, message in enumerate(messages):
        role = str(message.get("role"))
        assistant = role == "assistant"
        missing, whole = 0, 0
        for forms in texts(message):
            size = _size(forms[0])
            whole += size
            missing += size - finder.place(forms, index, role, inside=assistant and bool(blocks))
        if role not in PROMPT_ROLES:
            lost.append((index, missing, whole))
        if assistant:
            finder.next_block()
    return Located(sorted(finder.pieces, key=lambda piece: piece.start), lost)


def texts(message: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The texts of a message, each in the forms in which a template may write it, the fullest first."""
    reasoning = next((message[key] for key in ("reasoning_content", "thinking", "reasoning") if message.get(key)), None)
    if isinstance(reasoning, str):
        yield (reasoning,)
    for part in _parts(message.get("content")):
        if message.get("role") == "assistant" and CLOSE_THINK in part:
            head, _, tail = part.partition(CLOSE_THINK)
            yield (head.partition("<think>")[2] or head,)
            yield (tail,)
        else:
            yield (part,)
    for call in message.get("tool_calls") or ():
        yield from _call_texts(call)


def _parts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [str(part["text"]) for part in content if isinstance(part, dict) and part.get("text") is not None]
    return []


def _call_texts(call: Any) -> Iterator[tuple[str, ...]]:
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return
    if isinstance(function.get("name"), str):
        yield (function["name"],)
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        yield (arguments, json.dumps(arguments, ensure_ascii=False))
    elif arguments:
        yield tuple(json.dumps(arguments, ensure_ascii=ascii_only) for ascii_only in (False, True))


def _size(text: str) -> int:
    return len("".join(text.split()))


class _Finder:
    """A cursor over the rendering that only moves on."""

    def __init__(self, text: str, blocks: Sequence[Span], leads: Mapping[str, str]) -> None:
        self.text, self.blocks, self.leads = text, blocks, leads
        self.block = self.cursor = 0
        self.pieces: list[Piece] = []

    def place(self, forms: Sequence[str], message: int, role: str, *, inside: bool) -> int:
        """Place the first form that is found; the number of characters found, white space not counted."""
        for form in forms:
            for wanted in (form, form.strip()):
                start = self._find(wanted, role, inside) if wanted else -1
                if start >= 0:
                    self.cursor = start + len(wanted)
                    self.pieces.append(Piece(start, self.cursor, message, role))
                    return _size(forms[0])
        return 0

    def _find(self, wanted: str, role: str, inside: bool) -> int:
        if inside:
            return self._find_in_blocks(wanted)
        if lead := self.leads.get(role):
            found = self.text.find(lead + wanted, self.cursor, self._next_block())
            if found >= 0:
                return found + len(lead)
        found = self.text.find(wanted, self.cursor, self._next_block())
        return found if found >= 0 else self.text.find(wanted, self.cursor)

    def _find_in_blocks(self, wanted: str) -> int:
        for number in range(self.block, len(self.blocks)):
            start, end = self.blocks[number]
            found = self.text.find(wanted, max(start, self.cursor), end)
            if found >= 0:
                self.block = number
                return found
        return -1

    def _next_block(self) -> int:
        return self.blocks[self.block][0] if self.block < len(self.blocks) else len(self.text)

    def next_block(self) -> None:
        """Leave the block of the message that was just placed."""
        if self.block < len(self.blocks) and self.cursor > self.blocks[self.block][0]:
            self.cursor = max(self.cursor, self.blocks[self.block][1])
            self.block += 1
