"""What one sample shows of its row, template and labels: offences by check, found in the one pass over rows."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.dataset import role_offences
from pytest_longctx.tokens.align import runs_backwards, token_spans, uncovered
from pytest_longctx.tokens.locate import PROMPT_ROLES
from pytest_longctx.tokens.sample import IGNORED, SUPERVISED
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_longctx.contract import SupervisionSection
    from pytest_longctx.tokens.sample import Draft, Sample
    from pytest_longctx.tokens.scaffold import Scaffold
    from pytest_longctx.tokens.tokenizer import Tokenizer

MOST_WITNESSES = 1000


@dataclass
class Findings:
    """Offending rows per check: how many, and the first thousand witnesses (one a row)."""

    counts: Counter[str] = field(default_factory=Counter)
    witnesses: dict[str, list[Witness]] = field(default_factory=dict)

    def add(self, check: str, witness: Witness) -> None:
        """Count one row against a check."""
        self.counts[check] += 1
        kept = self.witnesses.setdefault(check, [])
        if len(kept) < MOST_WITNESSES:
            kept.append(witness)


class Inspector:
    """Runs every inspection over a sample; the first offence of a row is its witness."""

    def __init__(self, tokenizer: Tokenizer, scaffold: Scaffold, terms: SupervisionSection) -> None:
        backend = tokenizer.backend
        self.terms, self.scaffold = terms, scaffold
        self.bos = backend.bos_token_id if backend.bos_token_id != backend.eos_token_id else None
        added = [token for token in backend.added_tokens_encoder if not token.isspace()]
        self.structural = _any_of(added)
        self.special = _any_of(backend.all_special_tokens)
        self.findings = Findings()

    def inspect(self, sample: Sample) -> None:
        """Add the offences of one sample to the findings."""
        for check, inspection in INSPECTIONS.items():
            witness = next(inspection(self, sample), None)
            if witness is not None:
                self.findings.add(check, witness)


def _any_of(tokens: list[str]) -> re.Pattern[str]:
    longest_first = sorted(filter(None, tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _messages(draft: Draft | None) -> list[dict[str, Any]]:
    return (draft.conversation.messages or []) if draft else []


def single_bos(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """At most one begin-of-sequence token, at the start."""
    if inspector.bos is None:
        return
    places = np.flatnonzero(sample.ids == inspector.bos)
    wrong = places[places > 0]
    if wrong.size:
        yield Witness(
            sample.conversation.id, "one BOS, at position 0", f"{places.size} BOS", position=int(wrong[0])
        )


def offsets(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Token spans cover the text and never run backwards."""
    if sample.draft is None or sample.offsets is None:
        return
    written = sample.offsets[sample.offsets[:, 1] > 0]
    name = sample.conversation.id
    backwards = runs_backwards(written)
    if backwards is not None:
        yield Witness(name, "spans in order", "a span that runs backwards", position=backwards)
    character = uncovered(sample.draft.text, np.maximum.accumulate(written, axis=0))
    if character is not None:
        yield Witness(name, "text covered", f"no token at character {character}", position=None)


def roles(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """The grammar of roles."""
    for offence in role_offences(sample.conversation):
        yield Witness(sample.conversation.id, note=offence)


def tool_arguments(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Tool arguments given as JSON text must not become an escaped string in the target."""
    for index, message in enumerate(_messages(sample.draft)):
        for call in message.get("tool_calls") or ():
            function = call.get("function", call) if isinstance(call, dict) else {}
            arguments = function.get("arguments") if isinstance(function, dict) else None
            if isinstance(arguments, str) and sample.draft and _is_escaped(arguments, sample.draft.text):
                note = f"message {index}: arguments are JSON text; give them as a mapping"
                yield Witness(sample.conversation.id, "an object", "an escaped string", note=note)


def _is_escaped(arguments: str, text: str) -> bool:
    escaped = json.dumps(arguments, ensure_ascii=False)[1:-1]
    return '"' in arguments and escaped in text


def content_survives(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Every assistant text is in what the template rendered."""
    if sample.draft is None:
        return
    for index, lost, whole in sample.draft.located.lost:
        if lost:
            note = f"message {index}: {lost} of {whole} characters are not in the rendered text"
            yield Witness(sample.conversation.id, 1.0, round(1 - lost / whole, 4), note=note)


def control_tokens(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """No special token stands inside a text of the row."""
    for index, message in enumerate(_messages(sample.draft)):
        pattern = inspector.structural if message.get("role") in PROMPT_ROLES else inspector.special
        found = pattern.search(_plain_text(message.get("content")))
        if found:
            note = f"message {index}, role {message.get('role')}"
            yield Witness(sample.conversation.id, "plain text", found.group(), note=note)


def _plain_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def present(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """At least one answer token."""
    if not sample.answer.any():
        scaffolding = int((sample.kind == SUPERVISED).sum())
        note = f"{scaffolding} supervised tokens, all from the template" if scaffolding else "no supervised token"
        yield Witness(sample.conversation.id, "≥ 1 answer token", 0, note=note)


def supervised_roles(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """No supervised token inside a prompt text, and not everything supervised."""
    if inspector.terms.turns == "every_token" or sample.draft is None or sample.offsets is None:
        return
    name = sample.conversation.id
    if len(sample.labels) and (sample.labels != IGNORED).all() and sample.conversation.text is None:
        yield Witness(name, "the answers only", "every token is supervised")
    for piece in sample.draft.located.pieces:
        if piece.role != "assistant":
            first, last = token_spans(np.maximum.accumulate(sample.offsets, axis=0), [(piece.start, piece.end)])[0]
            trained = np.flatnonzero(sample.kind[first:last] == SUPERVISED)
            # A token across the border of the text counts with its neighbour.
            inside = trained[(trained > 0) & (trained < last - first - 1)]
            if inside.size:
                yield Witness(name, "a prompt, not trained", f"role {piece.role}", position=int(first + inside[0]))


def turns(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """Each assistant message that the policy supervises has a supervised token, and no other has one."""
    messages = _messages(sample.draft)
    if not messages or sample.draft is None or inspector.terms.turns not in ("all", "last"):
        return
    expected = expected_turns(messages, inspector.terms)
    found = _trained_messages(sample)
    if expected != found:
        note = f"assistant messages supervised: {sorted(found)}, the policy wants {sorted(expected)}"
        yield Witness(sample.conversation.id, len(expected), len(found), note=note)


def expected_turns(messages: list[dict[str, Any]], terms: SupervisionSection) -> set[int]:
    """The assistant messages that the policy supervises and that have a text."""
    assistants = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
    if terms.turns == "last":
        assistants = assistants[-1:]
    elif key := terms.message_weight:
        assistants = [index for index in assistants if messages[index].get(key, 1)]
    return {index for index in assistants if _has_text(messages[index])}


def _has_text(message: dict[str, Any]) -> bool:
    return bool(_plain_text(message.get("content")).strip() or message.get("tool_calls"))


def _trained_messages(sample: Sample) -> set[int]:
    if sample.draft is None or sample.offsets is None:
        return set()
    pieces = [piece for piece in sample.draft.located.pieces if piece.role == "assistant"]
    spans = token_spans(np.maximum.accumulate(sample.offsets, axis=0), [(p.start, p.end) for p in pieces])
    return {p.message for p, (a, b) in zip(pieces, spans.tolist(), strict=True) if sample.answer[a:b].any()}


def turn_end(inspector: Inspector, sample: Sample) -> Iterator[Witness]:
    """The terminator that the template renders is the last thing each supervised turn trains."""
    draft, endings = sample.draft, inspector.scaffold.terminators
    if draft is None or draft.spans is None or not draft.conversation.messages:
        return
    name = sample.conversation.id
    for turn, (start, end) in enumerate(draft.spans):
        if endings and draft.text[start:end].rstrip().endswith(endings):
            continue
        position = int(sample.turns[turn, 1]) - 1 if turn < len(sample.turns) else None
        if endings and draft.text[end:].lstrip().startswith(endings):
            yield Witness(name, "trained", "rendered, but outside the supervised span", position=position)
        else:
            yield Witness(name, f"one of {', '.join(endings) or 'any'}", "no end of turn", position=position)


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


INSPECTIONS: dict[str, Callable[[Inspector, Sample], Iterator[Witness]]] = {
    "tokenizer::single_bos": single_bos,
    "tokenizer::offsets": offsets,
    "dataset::roles": roles,
    "dataset::tool_arguments": tool_arguments,
    "dataset::content_survives": content_survives,
    "dataset::control_tokens": control_tokens,
    "supervision::present": present,
    "supervision::roles": supervised_roles,
    "supervision::turns": turns,
    "supervision::turn_end": turn_end,
    "supervision::labels_match_ids": labels_match_ids,
    "supervision::prompt_prefix": prompt_prefix,
}
