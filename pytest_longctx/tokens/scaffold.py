"""What the template writes around the texts of a conversation, read off what it renders."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_longctx.tokens.template import RenderError

if TYPE_CHECKING:
    from pytest_longctx.tokens.template import Renderer

_USER, _ASSISTANT, _OTHER, _REASONING = "Qzuser7", "Qzanswer7", "Qzother7", "Qzreason7"
_ARGUMENT = "Qzargument7"
_LEAD = 16
_CALL: dict[str, Any] = {
    "type": "function",
    "id": "call00000",
    "function": {"name": "f", "arguments": {"city": _ARGUMENT}},
}


@dataclass(frozen=True, slots=True)
class Scaffold:
    """The template's own words.

    terminators: what ends an assistant turn, stripped of white space; empty where turns end with nothing,
    None where the template refuses the probes. header: what opens an assistant turn, from its first special
    token to its last visible character; empty where it has none. leads: per role, and for reasoning, what
    stands right in front of its text, so that a one-letter text is not found in a header. trained_header:
    words of the header that stand in the generation block, although the generation prompt gives them.
    bos_in_turns: whether BOS stands at the border of turns, and not only at the start.
    call_terminator: the special token that ends a generation block that calls tools, where such turns do not
    end as answers do; empty otherwise.
    """

    terminators: tuple[str, ...] | None = None
    header: str = ""
    leads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    trained_header: str = ""
    bos_in_turns: bool = False
    call_terminator: str = ""


def read_scaffold(renderer: Renderer) -> Scaffold:
    """Learn the scaffold from probe conversations; what the template refuses stays unknown."""
    if renderer.tokenizer.template is None:
        return Scaffold()
    probe = _Probe(renderer, parts=False)
    return (
        probe.scaffold() or _Probe(renderer, parts=True).scaffold() or Scaffold(leads=_known(probe.leads()))
    )


@dataclass(frozen=True, slots=True)
class _Probe:
    """Conversations of marked texts, as plain texts or as lists of parts."""

    renderer: Renderer
    parts: bool

    def message(self, role: str, content: str, **keys: Any) -> dict[str, Any]:
        return {
            "role": role,
            "content": [{"type": "text", "text": content}] if self.parts else content,
            **keys,
        }

    def text(self, *messages: dict[str, Any]) -> str:
        try:
            return self.renderer.render(list(messages)).text
        except RenderError:
            return ""

    def scaffold(self) -> Scaffold | None:
        """The scaffold, or None where the template does not write each text of two plain turns once.

        Behind the last answer stands only the terminator. Behind an earlier one stand the terminator and the
        header of the next user turn, which also stands in front of the first user text.
        """
        user, answer = self.message("user", _USER), self.message("assistant", _ASSISTANT)
        text = self.text(user, answer, user, answer)
        if text.count(_USER) != 2 or text.count(_ASSISTANT) != 2:
            return None
        before, opening, between, last_opening, last = re.split(f"{_USER}|{_ASSISTANT}", text)
        added = list(self.renderer.tokenizer.backend.added_tokens_encoder)
        earlier = _earlier_end(before, between, added)
        if last.strip() and between.startswith(last.strip()):
            earlier = last
        ends = tuple(sorted({earlier.strip(), last.strip()} - {""}))
        inner, after = self.reasoning_leads()
        leads = {**self.leads(), "user": between.removeprefix(earlier)[-_LEAD:], "reasoning": inner}
        answers = tuple(dict.fromkeys(lead[-_LEAD:] for lead in (opening, last_opening, after) if lead))
        header, trained = _header(opening, ends, added), self.trained_header(added)
        bos = self.renderer.tokenizer.backend.bos_token
        return Scaffold(
            terminators=ends,
            header=header,
            leads={**_known(leads), "assistant": answers},
            trained_header=trained,
            bos_in_turns=bool(bos) and bos in between + last_opening,
            call_terminator=self.call_terminator(ends),
        )

    def trained_header(self, added: list[str]) -> str:
        """Visible words of the generation prompt that are supervised, special tokens and reasoning apart."""
        user, answer = self.message("user", _USER), self.message("assistant", _ASSISTANT)
        try:
            prompt = self.renderer.render([user], add_generation_prompt=True).text
            whole = self.renderer.render([user, answer])
        except RenderError:
            return ""
        start = whole.blocks[0][0] if whole.blocks else len(prompt)
        given = whole.text[start : _common_suffix(prompt[::-1], whole.text[::-1])].partition("<think>")[0]
        for token in sorted(added, key=len, reverse=True):
            given = given.replace(token, " ")
        return given.strip()

    def call_terminator(self, ends: tuple[str, ...]) -> str:
        """The special token that ends a block with a call, and may be what ends the turn.

        One that closes each call, where the end of the turn is forgotten, cannot be told from it.
        """
        try:
            found = self.renderer.render(self.with_call(self.message("assistant", _ASSISTANT)))
        except RenderError:
            return ""
        turn, _, _ = found.text.partition(_OTHER)
        called = turn.find(_ARGUMENT)
        if called < 0 or any(end in turn[called:] for end in ends):
            return ""
        block = next((found.text[a:b] for a, b in found.blocks if a <= called < b), "").rstrip()
        special = self.renderer.tokenizer.special
        return max((token for token in special if block.endswith(token)), key=len, default="")

    def with_call(self, *last: dict[str, Any]) -> list[dict[str, Any]]:
        """A question, a call of a tool and its result, before the last messages."""
        calling = self.message("assistant", "", tool_calls=[_CALL])
        result = self.message("tool", _OTHER, tool_call_id="call00000", name="f")
        return [self.message("user", _USER), calling, result, *last]

    def leads(self) -> dict[str, str]:
        """What stands in front of texts that not every template takes."""
        return {role: self.lead(role) for role in ("system", "developer", "tool")}

    def lead(self, role: str) -> str:
        user, answer = self.message("user", _USER), self.message("assistant", _ASSISTANT)
        messages = self.with_call(answer) if role == "tool" else [self.message(role, _OTHER), user, answer]
        before, found, _ = self.text(*messages).partition(_OTHER)
        return before[-_LEAD:] if found else ""

    def reasoning_leads(self) -> tuple[str, str]:
        """What stands in front of an answer's reasoning, and between it and the answer."""
        answer = self.message("assistant", _ASSISTANT, reasoning_content=_REASONING)
        before, found, rest = self.text(self.message("user", _USER), answer).partition(_REASONING)
        between, answered, _ = rest.partition(_ASSISTANT)
        return (before[-_LEAD:], between[-_LEAD:]) if found and answered else ("", "")


def _known(leads: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {role: (lead,) for role, lead in leads.items() if lead}


def _earlier_end(before: str, between: str, added: list[str]) -> str:
    """The end of an answer before another turn: `between` without the header that `before` ends with."""
    cut = len(between) - _common_suffix(before, between)
    for token in added:
        start = between.find(token, max(0, cut - len(token) + 1), cut + len(token))
        if 0 <= start < cut < start + len(token):
            cut = start + len(token)
    if cut:
        return between[:cut]
    # The header is all there is: its first special token ends the answer, unless every turn opens with it.
    first = _longest_start(between, added)
    bos = _longest_start(before, added)
    return "" if before.startswith((first, bos + first)) else first


def _header(opening: str, ends: tuple[str, ...], added: list[str]) -> str:
    """The opening of an assistant turn without the end of the user's turn, up to its first reasoning mark."""
    header = opening.strip()
    for end in ends:
        header = header.removeprefix(end).strip()
    header = header.partition("<think>")[0].rstrip()
    return header if _longest_start(header, added) else ""


def _longest_start(text: str, tokens: list[str]) -> str:
    return max((token for token in tokens if text.startswith(token)), key=len, default="")


def _common_suffix(left: str, right: str) -> int:
    pairs = zip(reversed(left), reversed(right), strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
