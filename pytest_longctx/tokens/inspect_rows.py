"""Inspections of sections tokenizer and dataset: does the text mean what the row says?"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.dataset import all_messages, role_offences
from pytest_longctx.tokens.align import paint, runs_backwards, uncovered
from pytest_longctx.tokens.locate import PROMPT_ROLES
from pytest_longctx.tokens.sample import block_messages
from pytest_longctx.tokens.texts import (
    CLOSE_THINK,
    OPEN_THINK,
    TOOL_ROLES,
    as_json,
    plain_text,
    source_forms,
    sources,
    tool_calls,
)
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_longctx.dataset import Conversation
    from pytest_longctx.tokens.inspect import Inspector
    from pytest_longctx.tokens.sample import Draft, Sample

_OPENING = 8  # characters of a part's source


def single_bos(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """At most one BOS, at the start; exactly one where the tokenizer adds it to plain text.

    Where the template writes it in every turn: never twice in a row, and none in a message's text.
    """
    if inspector.bos is None:
        return
    places = np.flatnonzero(sample.ids == inspector.bos)
    in_turns = inspector.scaffold.bos_in_turns
    wrong = _beside_turns(sample, places) if in_turns else places[places > 0]
    missing = inspector.adds_bos and sample.draft is not None and len(sample.ids) and not places.size
    if wrong.size or missing:
        position = int(wrong[0]) if wrong.size else 0
        expected = (
            "BOS only where the template writes it, and once there" if in_turns else "one BOS, at position 0"
        )
        yield Witness(sample.conversation.id, expected, f"{places.size} BOS", position=position)


def _beside_turns(sample: Sample, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The BOS that no turn has by design: a second one in a row, and those of messages' texts."""
    second: NDArray[np.int64] = places[1:][np.diff(places) == 1]
    # A text that no template rendered here may hold turns itself.
    if sample.draft is None or sample.draft.special_tokens:
        return second
    of_texts = np.zeros(len(sample.ids), dtype=np.bool_)
    paint(of_texts, sample.pieces, True)
    return np.concatenate([second, places[of_texts[places]]])


def offsets(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Token spans cover the text and never run backwards."""
    if sample.draft is None:
        return
    name = sample.conversation.id
    if sample.offsets is not sample.edges:
        written = np.flatnonzero(sample.offsets[:, 1] > 0)
        backwards = runs_backwards(sample.offsets[written])
        if backwards is not None:
            yield Witness(name, "spans in order", "one runs backwards", position=int(written[backwards]))
    character = uncovered(sample.draft.text, sample.edges, inspector.normalize)
    if character is not None:
        position = int(np.searchsorted(sample.edges[:, 1], character, side="right"))
        yield Witness(name, "text covered", f"no token at character {character}", position=position)


def roles(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """The grammar of roles."""
    for offence in role_offences(sample.conversation):
        yield Witness(sample.conversation.id, note=offence)


def tool_arguments(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Arguments are objects, or sound JSON text, and do not become an escaped string in what is rendered."""
    if sample.draft is None:
        return
    for index, message in enumerate(all_messages(sample.conversation)):
        for function in tool_calls(message):
            arguments = function.get("arguments")
            given = "JSON text" if isinstance(arguments, str) else "a mapping"
            note = f"message {index}: arguments are {given}"
            if _is_escaped(arguments, sample.draft.text) or _is_quoted(arguments, sample.draft, index):
                yield Witness(sample.conversation.id, "an object", "an escaped string", note=note)
            elif isinstance(arguments, str) and not _is_object(arguments):
                yield Witness(sample.conversation.id, "an object", "no JSON object", note=note)


def _is_escaped(arguments: Any, text: str) -> bool:
    plain = arguments if isinstance(arguments, str) else as_json(arguments)
    return '"' in plain and json.dumps(plain, ensure_ascii=False)[1:-1] in text


def _is_quoted(arguments: Any, draft: Draft, index: int) -> bool:
    """Whether arguments given as a text without quotes of its own, such as {}, stand in quotes."""
    if not isinstance(arguments, str) or '"' in arguments:
        return False
    quoted = json.dumps(arguments, ensure_ascii=False)
    places = ((piece.start, piece.end) for piece in draft.located.pieces if piece.message == index)
    return any(quoted in (draft.text[a:b], draft.text[max(0, a - 1) : b + 1]) for a, b in places)


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


def content_survives(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Every assistant text is in what the template rendered, and some of each other message.

    So is each tool by its name. Reasoning stands there once, and ends; no part stands there as source.
    """
    if sample.draft is None:
        return
    yield from _parts_as_source(sample.draft)
    yield from _tools_left_out(sample.draft)
    for index, lost, whole in sample.draft.located.lost:
        if lost:
            note = f"message {index}: {lost} of {whole} characters are not in the rendered text"
            yield Witness(sample.conversation.id, 1.0, round(1 - lost / whole, 4), note=note)
    for index, found, given in _reasoning_blocks(sample.draft, all_messages(sample.conversation)):
        if found > max(1, given):
            note = f"message {index}: the template writes {found} reasoning blocks"
            yield Witness(sample.conversation.id, max(1, given), found, note=note)
    yield from _endless_reasoning(sample.conversation)


def _parts_as_source(draft: Draft) -> Iterator[Witness]:
    opened: dict[str, bool] = {}  # texts are long: how a source opens is looked for once, not per message
    for index, message in enumerate(all_messages(draft.conversation)):
        for language, form in source_forms(message.get("content")).items():
            opening = form[:_OPENING]
            if opening not in opened:
                opened[opening] = opening in draft.text
            if opened[opening] and form in draft.text:
                found, note = f"{language} source", f"message {index}, role {message.get('role')}"
                yield Witness(draft.conversation.id, "the text of its parts", found, note=note)
                break


def _tools_left_out(draft: Draft) -> Iterator[Witness]:
    """Definitions of tools whose name stands nowhere but in what assistants and tools say.

    Rows may hold the definitions in their system message, too.
    """
    # Of a prompt and completion as texts no template is rendered.
    if not draft.conversation.tools or not all_messages(draft.conversation):
        return
    functions = [tool.get("function", tool) for tool in draft.conversation.tools]
    names = [function.get("name") for function in functions if isinstance(function, dict)]
    others, at = [], 0
    for piece in draft.located.pieces:
        if piece.role == "assistant" or piece.role in TOOL_ROLES:
            others.append(draft.text[at : piece.start])
            at = max(at, piece.end)
    shown = "\0".join([*others, draft.text[at:]])
    missing = sum(isinstance(name, str) and not _has_word(shown, name) for name in names)
    if missing:
        note = "tools: the template leaves definitions out"
        yield Witness(draft.conversation.id, len(names), len(names) - missing, note=note)


def _has_word(text: str, word: str) -> bool:
    """Whether a name stands in a text, and no longer one; letters of other scripts may touch it."""
    return word in text and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.ASCII) is not None


def _reasoning_blocks(draft: Draft, messages: list[dict[str, Any]]) -> Iterator[tuple[int, int, int]]:
    """Per supervised span its message, the ends of reasoning in it, and those in the message's content."""
    if CLOSE_THINK not in draft.text:
        return
    owners = block_messages(draft.spans or (), draft.located.pieces, messages)
    for (start, end), owner in zip(draft.spans or (), owners, strict=True):
        if owner is not None:
            given = plain_text(messages[owner].get("content")).count(CLOSE_THINK)
            yield owner, draft.text.count(CLOSE_THINK, start, end), given


def _endless_reasoning(conversation: Conversation) -> Iterator[Witness]:
    """Answers that open with reasoning and stop in it, as where generation was cut."""
    for index, message in enumerate(all_messages(conversation)):
        content = plain_text(message.get("content")) if message.get("role") == "assistant" else ""
        if content.lstrip().startswith(OPEN_THINK) and CLOSE_THINK not in content:
            found = "reasoning that does not end"
            yield Witness(conversation.id, CLOSE_THINK, found, note=f"message {index}")


def control_tokens(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """No special token stands in a text of the row, and none that the template writes in a prompt's."""
    for index, message in enumerate(all_messages(sample.conversation)):
        pattern = inspector.structural if message.get("role") in PROMPT_ROLES else inspector.special
        for kind, text in sources(message):
            if (found := pattern.search(text)) is not None:
                note = f"message {index}, role {message.get('role')}"
                note += "" if kind == "content" else f", {kind}"
                yield Witness(sample.conversation.id, "plain text", found, note=note)
    # Of a prompt and completion as texts no template is rendered, and no definition of a tool.
    if sample.conversation.tools and all_messages(sample.conversation):
        found = inspector.structural.search(as_json(sample.conversation.tools))
        if found is not None:
            yield Witness(sample.conversation.id, "plain text", found, note="tools")
