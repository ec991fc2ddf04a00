"""Where the texts of a row stand in what the template rendered of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from pytest_longctx.tokens.texts import as_json, message_texts, says_nothing, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_longctx.tokens.align import Span
    from pytest_longctx.tokens.texts import Text

Leads = dict[str, tuple[str, ...]]
_LEAST_PART = 8
PROMPT_ROLES = frozenset({"system", "developer", "user", "tool", "function", "ipython"})


@dataclass(frozen=True, slots=True)
class Piece:
    """One text of a message, `[start, end)` in characters of the rendering. `message` is -1 for tools."""

    start: int
    end: int
    message: int
    role: str


@dataclass(frozen=True, slots=True)
class Located:
    """The pieces that were found, in order, and per message the characters that were not.

    lost: (message, characters lost, characters in all) where something is missing of a message that is no
    prompt, so also of a role that the template may not know, and of the first prompt of which not even half
    stands in the rendering; white space does not count.
    """

    pieces: list[Piece]
    lost: list[tuple[int, int, int]]


def locate(
    text: str,
    blocks: Sequence[Span],
    messages: Sequence[dict[str, Any]],
    tools: Sequence[Any] | None,
    leads: Mapping[str, tuple[str, ...]],
) -> Located:
    """Find every text of the messages in the rendering, in reading order.

    Texts of the assistant are looked for inside the generation blocks, so that a short answer is not mistaken
    for a word of a header. A template may strip a text: then what is left of it is found.

    Args:
        blocks: generation blocks in characters; empty where the template has none.
        leads: per role, what the template writes right in front of its text.
    """
    answers = sum(message.get("role") == "assistant" for message in messages)
    groups = _one_a_message(text, blocks, answers)
    finder = _Finder(text, groups or blocks, leads, answers)
    lost, dropped = [], False
    for index, message in enumerate(messages):
        role = str(message.get("role"))
        place = finder.answer if role == "assistant" and blocks else finder.prompt
        texts = list(message_texts(message))
        missing = sum(_missing(place, each, index, role) for each in texts)
        if missing:
            size = sum(each.size for each in texts)
            whole = role in PROMPT_ROLES and missing == size and not dropped
            dropped |= whole and not _stands_in(finder.squeezed, texts)
            if role not in PROMPT_ROLES or (whole and dropped):
                lost.append((index, missing, size))
        if role == "assistant":
            finder.next_block()
    finder.tools(tools or ())
    return Located(sorted(finder.pieces, key=lambda piece: piece.start), lost)


def plain_answer(start: int, text: str, message: int) -> list[Piece]:
    """The piece of an answer that no template renders; none where it says nothing."""
    return [] if says_nothing(text) else [Piece(start, start + len(text), message, "assistant")]


def _one_a_message(text: str, blocks: Sequence[Span], answers: int) -> Sequence[Span] | None:
    """The blocks where there is one an answer, if need be after joining those that touch; else None."""
    if len(blocks) == answers:
        return blocks
    joined: list[Span] = []
    for start, end in blocks:
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = (joined[-1][0], end)
        elif end > start:
            joined.append((start, end))
    return joined if len(joined) == answers else None


def _missing(place: Any, text: Text, message: int, role: str) -> int:
    """Place a text, or else its leaves; the size of what was not found."""
    key = "reasoning" if text.kind == "reasoning" else role
    if place(text.forms, message, role, key):
        return 0
    if not text.leaves:
        return text.size
    return sum(visible(leaf[0]) for leaf in text.leaves if not place(leaf, message, role, key))


def _stands_in(squeezed: str, texts: Sequence[Text]) -> bool:
    """Whether half of any of these texts stands in the rendering, both without white space.

    A template may strip or replace a word of a prompt. Less of it may stand there by chance, or in a default
    that the template writes in its place.
    """
    forms = (form for each in texts for form in chain(each.forms, *each.leaves))
    parts = (_parts("".join(form.split())) for form in forms)
    return any(2 * sum(part in squeezed for part in each) >= len(each) for each in parts if each)


def _parts(text: str) -> list[str]:
    """A short text itself, or up to eight parts of it."""
    count = max(1, min(len(text) // _LEAST_PART, 8)) if text else 0
    edges = [len(text) * place // count for place in range(count + 1)] if count else []
    return [text[start:end] for start, end in pairwise(edges)]


def _spellings(forms: Sequence[str]) -> Iterator[str]:
    for form in forms:
        stripped = form.strip()
        if stripped:
            yield form
            if stripped != form:
                yield stripped


class _Finder:
    """Two cursors over the rendering that only move on: one for prompts, one inside the generation blocks."""

    def __init__(
        self,
        text: str,
        blocks: Sequence[Span],
        leads: Mapping[str, tuple[str, ...]],
        answers: int,
    ) -> None:
        self.text, self.blocks, self.leads = text, blocks, leads
        self.in_pairs, self.some_outside = len(blocks) == answers, len(blocks) < answers
        self.block = self.cursor = self.inner = 0
        self.used: list[int] = []
        self.pieces: list[Piece] = []

    @cached_property
    def squeezed(self) -> str:
        """The rendering without white space."""
        return "".join(self.text.split())

    def _add(self, start: int, form: str, message: int, role: str) -> int:
        self.pieces.append(Piece(start, start + len(form), message, role))
        return start + len(form)

    def _limit(self) -> int:
        """Where the next block starts."""
        return self.blocks[self.block][0] if self.block < len(self.blocks) else len(self.text)

    def prompt(self, forms: Sequence[str], message: int, role: str, key: str) -> bool:
        """Place a text in front of the next block; behind it only where its lead stands as well.

        A text that stands behind the next block (a system prompt in the last turn) does not move the cursor.
        """
        limit = self._limit()
        for form in _spellings(forms):
            start = self._led(form, key, self.cursor, limit)
            if start < 0:
                start = self.text.find(form, self.cursor, limit)
            if start >= 0:
                self.cursor = self._add(start, form, message, role)
                return True
            start = self._led(form, key, self.cursor, len(self.text))
            if start >= 0:
                self._add(start, form, message, role)
                return True
        return False

    def answer(self, forms: Sequence[str], message: int, role: str, key: str) -> bool:
        """Place a text in the message's own block, or where that is not known in the next that has it."""
        last = self.block + 1 if self.in_pairs else len(self.blocks)
        for form in _spellings(forms):
            if self.some_outside and self._outside(form, message, role, key):
                return True
            for number in range(self.block, last):
                start = self._in_block(form, key, *self.blocks[number])
                if start >= 0:
                    self.inner = self._add(start, form, message, role)
                    self.used.append(number)
                    return True
        return False

    def _outside(self, form: str, message: int, role: str, key: str) -> bool:
        """Place an answer that stands behind its header, but in front of the next block."""
        start = self._led(form, key, self.cursor, self._limit())
        if start >= 0:
            self.cursor = self._add(start, form, message, role)
        return start >= 0

    def _in_block(self, form: str, key: str, start: int, end: int) -> int:
        onward = max(start, self.inner)
        led = self._led(form, key, onward, end)
        found = led if led >= 0 else self.text.find(form, onward, end)
        return found if found >= 0 else self.text.find(form, start, end)

    def _led(self, form: str, key: str, start: int, end: int) -> int:
        """The first place behind one of the role's leads; the lead itself may stand in front of `start`."""
        for lead in self.leads.get(key, ()):
            found = self.text.find(lead + form, max(0, start - len(lead)), end)
            if found >= 0:
                return found + len(lead)
        return -1

    def next_block(self) -> None:
        """Leave the blocks of the message that was just placed; prompts may stand between them."""
        if self.in_pairs and not self.used:
            self.used.append(self.block)
        if self.used:
            self.cursor = max(self.cursor, self.blocks[min(self.used)][1])
            self.block = max(self.used) + 1
            self.inner, self.used = 0, []

    def tools(self, tools: Sequence[Any]) -> None:
        """Place tool definitions, as JSON, wherever they stand; they are prompts."""
        cursor = 0
        for tool in tools:
            form = as_json(tool)
            start = self.text.find(form, cursor)
            if start >= 0:
                cursor = self._add(start, form, -1, "tools")
