"""Inspections of section supervision: is trained what the contract wants trained?"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.dataset import all_messages, is_tool_call
from pytest_longctx.tokens.align import token_spans
from pytest_longctx.tokens.marker import occurrences
from pytest_longctx.tokens.sample import IGNORED, SUPERVISED
from pytest_longctx.tokens.texts import message_texts
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from pytest_longctx.dataset import Conversation
    from pytest_longctx.tokens.inspect import Inspector
    from pytest_longctx.tokens.sample import Draft, Sample

WEIGHT_KEYS = ("weight", "train", "loss_weight")
# Rows may hold texts under these names, which switch nothing.
SWITCH_KEYS = ("training", "trainable", "train_on_turn", "learn", "loss", "loss_mask", "mask")
_MOST_IDS = 16


def present(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """At least one answer token."""
    if sample.answer.any():
        return
    scaffolding = int((sample.kind == SUPERVISED).sum())
    note = f"{scaffolding} supervised tokens, all from the template" if scaffolding else "no supervised token"
    if inspector.sampler.markers and not scaffolding:
        note = _unmarked(inspector, sample)
    elif not len(sample.ids):
        note = "the row renders to no token"
    yield Witness(sample.conversation.id, "≥ 1 answer token", 0, note=note)


def _unmarked(inspector: Inspector, sample: Sample) -> str:
    """The marker's ids, and those of the tokens where the text has the marker."""
    marker = inspector.sampler.markers[-1]
    given = inspector.terms.marker
    text = (given if isinstance(given, str) else list(given or ("",))[-1]).strip()
    start = sample.draft.text.rfind(text) if sample.draft and text else -1
    note = f"marker ids {_ids(marker)} are not in the row"
    if start < 0:
        return f"{note}, nor is its text"
    first = int(np.searchsorted(sample.edges[:, 1], start, side="right"))
    last = int(np.searchsorted(sample.edges[:, 0], start + len(text), side="left"))
    return f"{note}: its text has the ids {_ids(sample.ids[first:last])} there"


def _ids(ids: Any) -> str:
    shown = ", ".join(map(str, ids[:_MOST_IDS].tolist()))
    return f"[{shown}{', …' if len(ids) > _MOST_IDS else ''}]"


def roles(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """No supervised token inside a prompt text, and not everything supervised."""
    if inspector.terms.turns == "every_token" or sample.conversation.text is not None:
        return
    name, kinds = sample.conversation.id, sample.kind.tobytes()
    if kinds and kinds.count(SUPERVISED) == len(kinds):
        yield Witness(name, "the answers only", "every token is supervised")
    if sample.draft is None:
        return
    if inspector.scaffold.trained_header and sample.draft.spans and len(sample.turns):
        note = "the template writes it inside {% generation %}, and into the generation prompt"
        yield Witness(
            name, "the answers only", "the assistant's header", position=int(sample.turns[0, 0]), note=note
        )
    for piece, (first, last) in zip(sample.draft.located.pieces, sample.pieces.tolist(), strict=True):
        # A token across the border of a text counts with its neighbour.
        position = kinds.find(SUPERVISED, first + 1, max(last - 1, 0))
        if position >= 0 and piece.role != "assistant":
            yield Witness(name, "a prompt, not trained", f"role {piece.role}", position=position)


def turns(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Each assistant message that the policy supervises has an answer token, and no other has one."""
    if inspector.terms.turns == "every_token":
        return
    if sample.draft is None:
        yield from _tokenized_turns(inspector, sample)
        return
    if not sample.answer.any():  # `present` tells that
        return
    counts = answer_counts(sample)
    counts.update(dict.fromkeys(silent_messages(sample.conversation, counts), 0))
    counts = dict(sorted(counts.items()))
    wanted = supervised_messages(inspector, sample.conversation) & counts.keys()
    if wanted != {message for message, count in counts.items() if count}:
        places = [place for place, message in enumerate(counts) if message in wanted]
        yield _turns_witness(sample, places, list(counts.values()))


def _turns_witness(sample: Sample, wanted: list[int], counts: list[int]) -> Witness:
    note = f"answer tokens per assistant turn {counts}; the policy trains turns {wanted}"
    return Witness(sample.conversation.id, len(wanted), sum(count > 0 for count in counts), note=note)


def answer_counts(sample: Sample) -> dict[int, int]:
    """Answer tokens of each assistant message whose text was found, by the message's index."""
    counts: dict[int, int] = {}
    pieces = sample.draft.located.pieces if sample.draft else []
    for piece, (first, last) in zip(pieces, sample.pieces.tolist(), strict=True):
        if piece.role == "assistant":
            found = int(np.count_nonzero(sample.answer[first:last]))
            counts[piece.message] = counts.get(piece.message, 0) + found
    return counts


def silent_messages(conversation: Conversation, found: Container[int]) -> list[int]:
    """The assistant messages without any text, reasoning or call, by index; none of those that were found."""
    return [
        at
        for at, message in enumerate(all_messages(conversation))
        if message.get("role") == "assistant"
        and at not in found
        and all(text.blank for text in message_texts(message))
    ]


def supervised_messages(inspector: Inspector, conversation: Conversation) -> set[int]:
    """The assistant messages that the policy supervises, by index; those of a text row are its only one."""
    messages = all_messages(conversation)
    if not messages:
        return {0, 1}
    first = len(conversation.prompt) if isinstance(conversation.prompt, list) else 0
    chosen = [at for at, message in enumerate(messages) if at >= first and message.get("role") == "assistant"]
    if inspector.terms.turns == "last":
        chosen = chosen[-1:]
    if key := inspector.terms.message_weight:
        chosen = [at for at in chosen if messages[at].get(key) is None or messages[at][key]]
    return set(chosen)


def _tokenized_turns(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Turns of a row of ids: what follows each header of the assistant, up to the next."""
    starts = occurrences(sample.ids, inspector.header) + len(inspector.header)
    if not starts.size or inspector.terms.turns == "completion":
        return
    ends = np.append(starts[1:], len(sample.ids)).tolist()
    supervised = sample.labels != IGNORED
    counts = [int(supervised[a:b].sum()) for a, b in zip(starts.tolist(), ends, strict=True)]
    wanted = [len(counts) - 1] if inspector.terms.turns == "last" else list(range(len(counts)))
    if [place for place, count in enumerate(counts) if count] != wanted and any(counts):
        yield _turns_witness(sample, wanted, counts)


def turn_end(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """The terminator that the template renders is a token, and the last that each supervised turn trains."""
    if inspector.terms.turns == "every_token" or sample.conversation.text is not None:
        return
    if sample.draft is None or not all_messages(sample.conversation):
        yield from _end_by_id(inspector, sample)
        return
    plain, text, name = inspector.scaffold.terminators, sample.draft.text, sample.conversation.id
    if plain is None:
        yield from _end_by_id(inspector, sample)
        return
    calling = inspector.scaffold.call_terminator
    for first, last in sample.turns.tolist():
        start, end = int(sample.edges[first, 0]), int(sample.edges[last - 1, 1])
        endings = (*plain, calling) if calling and _ends_with_call(sample.draft, start, end) else plain
        trained = text[start:end].rstrip()
        if endings and trained.endswith(endings):
            found = max(filter(trained.endswith, endings), key=len)
            if found in inspector.ordinary and not _is_token(
                sample, start + len(trained) - len(found), found
            ):
                yield Witness(name, "a token", "ordinary text", position=last - 1, note=found)
            continue
        if endings and text[end:].lstrip().startswith(endings):
            yield Witness(name, "trained", "rendered, but outside the supervised span", position=last)
        else:
            yield Witness(name, f"one of {', '.join(endings) or 'any'}", "no end of turn", position=last - 1)


def _is_token(sample: Sample, start: int, text: str) -> bool:
    """Whether a text of the rendering is one token, white space beside it apart.

    Generation stops at a token: a text of several, or of one merged with the answer, does not stop it.
    """
    ((first, last),) = token_spans(sample.edges, [(start, start + len(text))]).tolist()
    assert sample.draft is not None
    return last - first == 1 and sample.draft.text[slice(*sample.edges[first])].strip() == text


def _ends_with_call(draft: Draft, start: int, end: int) -> bool:
    """Whether the last message with a text in `[start, end)` calls tools."""
    pieces = draft.located.pieces
    at = bisect_left(pieces, end, key=lambda piece: piece.start) - 1
    if at < 0 or pieces[at].start < start or pieces[at].role != "assistant":
        return False
    return is_tool_call(all_messages(draft.conversation)[pieces[at].message])


def _end_by_id(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Where only ids tell: a supervised span must not stop before the end of its turn, nor the row.

    The row ends ahead of the padding behind it.
    """
    name, size = sample.conversation.id, len(sample.ids)
    pads = sample.ids == inspector.sampler.tokenizer.backend.pad_token_id
    unpadded = int(np.flatnonzero(~pads)[-1]) + 1 if not pads.all() else 0
    for first, last in sample.turns.tolist():
        tail = sample.ids[max(first, last - 2) : last].tolist()
        if not inspector.ends.isdisjoint(tail):
            continue
        if last < size and int(sample.ids[last]) in inspector.ends:
            yield Witness(name, "trained", "an end of turn outside the supervised span", position=last)
        elif last >= unpadded and inspector.closings and inspector.closings.isdisjoint(tail):
            expected = f"one of the ids {', '.join(map(str, sorted(inspector.closings)))}"
            yield Witness(
                name, expected, "no end of turn", position=last - 1, note="the row ends in its turn"
            )


def labels_match_ids(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """A label is the id at the same place, or -100: no shift."""
    wrong = np.flatnonzero((sample.labels != IGNORED) & (sample.labels != sample.ids))
    if wrong.size:
        at = int(wrong[0])
        yield Witness(sample.conversation.id, int(sample.ids[at]), int(sample.labels[at]), position=at)


def prompt_prefix(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """The prompt's ids are a prefix of prompt + completion."""
    if sample.seam:
        seam = int(sample.turns[0, 0]) if len(sample.turns) else len(sample.ids)
        note = f"{sample.seam} prompt tokens merge with the completion or render otherwise"
        yield Witness(sample.conversation.id, 0, sample.seam, position=seam, note=note)


def message_weight(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Weights are named by the contract, are 0 or 1, and ask for nothing but answers."""
    key = inspector.terms.message_weight
    for index, message in enumerate(all_messages(sample.conversation)):
        if key is None:
            carried = _carried_weight(message)
            if carried is not None:
                note = f"message {index}: {carried}, which trainers ignore"
                yield Witness(sample.conversation.id, "no weight", _weight(message[carried]), note=note)
        elif (weight := message.get(key)) is not None:
            role = str(message.get("role"))[:40]
            if weight not in (0, 1):
                yield Witness(sample.conversation.id, "0 or 1", _weight(weight), note=f"message {index}")
            elif weight and role != "assistant":
                yield Witness(sample.conversation.id, 0, 1, note=f"message {index}: role {role} is a prompt")


def _carried_weight(message: dict[str, Any]) -> str | None:
    """The key under which a message has a weight or switch, if any."""
    weights = [name for name in WEIGHT_KEYS if message.get(name) is not None]
    switches = [name for name in SWITCH_KEYS if isinstance(message.get(name), int | float)]
    return next(iter(weights + switches), None)


def _weight(value: Any) -> str | int | float:
    return value if isinstance(value, int | float) else type(value).__name__
