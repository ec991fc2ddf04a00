"""One conversation to one sample: ids, labels, and what each token is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.tokens.align import mark, monotone, token_spans
from pytest_longctx.tokens.locate import Located, Piece, locate
from pytest_longctx.tokens.marker import marked_spans
from pytest_longctx.tokens.template import RenderError, no_generation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_longctx.contract import SupervisionSection
    from pytest_longctx.tokens.align import Span
    from pytest_longctx.tokens.scaffold import Scaffold
    from pytest_longctx.tokens.template import Rendering, Renderer

TEMPLATE, PROMPT, SUPERVISED = 0, 1, 2
IGNORED = -100


@dataclass(slots=True)
class Draft:
    """A conversation as text, before the tokenizer.

    `spans` are the supervised characters; None means that they follow from `prompt_text`, `marker` or the
    whole text. `special_tokens`: whether the tokenizer adds its own, as TRL has it for plain text.
    """

    conversation: Conversation
    text: str
    special_tokens: bool
    spans: list[Span] | None = None
    prompt_text: str | None = None
    located: Located = field(default_factory=lambda: Located([], []))
    blocks: list[Span] = field(default_factory=list)


@dataclass(slots=True)
class Sample:
    """A conversation as tokens.

    ids, labels: int32[T]; kind: uint8[T] of TEMPLATE, PROMPT, SUPERVISED; answer: bool[T], supervised tokens
    that come from the message text; turns: int64[k, 2], supervised spans in tokens; seam: prompt tokens that
    the whole text tokenizes otherwise; offsets: int32[T, 2] in characters of draft.text.
    """

    conversation: Conversation
    ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    kind: NDArray[np.uint8]
    answer: NDArray[np.bool_]
    turns: NDArray[np.int64]
    seam: int = 0
    draft: Draft | None = None
    offsets: NDArray[np.int32] | None = None


class Sampler:
    """The contract's supervision policy over one renderer."""

    def __init__(self, renderer: Renderer, scaffold: Scaffold, terms: SupervisionSection) -> None:
        self.renderer, self.scaffold, self.terms = renderer, scaffold, terms
        self.tokenizer = renderer.tokenizer
        self.markers = [self._ids(marker) for marker in _marker_list(terms.marker)]

    def _ids(self, text: str) -> NDArray[np.int32]:
        encoding = self.tokenizer.backend.backend_tokenizer.encode(text, add_special_tokens=False)
        return np.asarray(encoding.ids, dtype=np.int32)

    def draft(self, conversation: Conversation) -> Draft | RowProblem:
        """The text of a conversation that has one."""
        try:
            if conversation.messages is not None:
                return self._messages(conversation, conversation.messages)
            if conversation.text is not None:
                return self._text(conversation, conversation.text)
            return self._completion(conversation)
        except RenderError as error:
            where = (conversation.id, conversation.file, conversation.number)
            return RowProblem(*where, "template_error", f"the chat template refuses the row: {error}")

    def _messages(self, conversation: Conversation, messages: list[dict[str, Any]]) -> Draft:
        rendering = self.renderer.render(messages, conversation.tools, conversation.template_kwargs)
        located = self._locate(rendering, conversation, messages)
        spans: list[Span] | None = None
        if self.terms.turns != "every_token" and not self.markers:
            spans = self._trained(rendering.blocks, located.pieces, messages)
        return Draft(conversation, rendering.text, False, spans, None, located, rendering.blocks)

    def _trained(
        self, blocks: list[Span], pieces: Sequence[Piece], messages: list[dict[str, Any]]
    ) -> list[Span]:
        if self.terms.turns == "last":
            return blocks[-1:]
        if key := self.terms.message_weight:
            owners = block_messages(blocks, pieces, messages)
            return [
                block
                for block, owner in zip(blocks, owners, strict=True)
                if owner is None or messages[owner].get(key, 1)
            ]
        return blocks

    def _locate(
        self, rendering: Rendering, conversation: Conversation, messages: list[dict[str, Any]]
    ) -> Located:
        return locate(rendering.text, rendering.blocks, messages, conversation.tools, self.scaffold.leads)

    def _text(self, conversation: Conversation, text: str) -> Draft:
        piece = Piece(0, len(text), 0, "assistant")
        return Draft(conversation, self._with_eos(text), True, None, None, Located([piece], []))

    def _with_eos(self, text: str) -> str:
        eos = self.tokenizer.backend.eos_token or ""
        return text if text.endswith(eos) else text + eos

    def _completion(self, conversation: Conversation) -> Draft:
        prompt, completion = conversation.prompt, conversation.completion
        if isinstance(prompt, str) and isinstance(completion, str):
            pieces = [
                Piece(0, len(prompt), 0, "user"),
                Piece(len(prompt), len(prompt + completion), 1, "assistant"),
            ]
            whole = prompt + self._with_eos(completion)
            return Draft(conversation, whole, True, None, prompt, Located(pieces, []))
        messages = [*(prompt or ()), *(completion or ())]
        settings = (conversation.tools, conversation.template_kwargs)
        rendering = self.renderer.render(messages, *settings)
        alone = self.renderer.render(list(prompt or ()), *settings, add_generation_prompt=True)
        located = self._locate(rendering, conversation, messages)
        return Draft(conversation, rendering.text, False, None, alone.text, located, rendering.blocks)

    def finish(
        self, draft: Draft, ids: NDArray[np.int32], offsets: NDArray[np.int32], prompt_ids: NDArray[np.int32]
    ) -> Sample:
        """Tokens of a draft, told apart.

        Args:
            ids: int32[T]; offsets: int32[T, 2]; prompt_ids: int32[P], the prompt tokenized alone, or empty.
        """
        seam = 0
        edges = monotone(offsets)
        if draft.spans is not None:
            turns = token_spans(edges, draft.spans)
        elif self.markers and draft.conversation.messages is not None:
            turns = marked_spans(ids, self.markers)
        elif draft.prompt_text is not None and self.terms.turns != "every_token":
            common = _common_prefix(prompt_ids, ids)
            seam = len(prompt_ids) - common
            turns = np.array([[common, len(ids)]], dtype=np.int64)
        else:
            turns = np.array([[0, len(ids)]], dtype=np.int64)
        turns = turns[turns[:, 1] > turns[:, 0]]
        supervised = mark(len(ids), turns)
        kind = np.where(supervised, SUPERVISED, TEMPLATE).astype(np.uint8)
        prompts, answers = _by_role(draft.located.pieces)
        kind[mark(len(ids), token_spans(edges, prompts)) & ~supervised] = PROMPT
        answer = mark(len(ids), token_spans(edges, answers)) & supervised
        labels = np.where(supervised, ids, IGNORED).astype(np.int32)
        return Sample(draft.conversation, ids, labels, kind, answer, turns, seam, draft, offsets)

    def check_template(self) -> str | None:
        """Why conversations of messages cannot be supervised as the contract wants it, or None."""
        needs_blocks = self.terms.turns in ("all", "last") and not self.markers
        return no_generation(self.tokenizer) if needs_blocks and not self.tokenizer.marks_generation else None


def tokenized_sample(conversation: Conversation) -> Sample:
    """A sample from a row that came with ids and labels; supervised spans are runs of labels.

    What is template and what is prompt cannot be told from ids: all that is not supervised counts as prompt.
    """
    ids = np.asarray(conversation.input_ids, dtype=np.int32)
    labels = np.asarray(conversation.labels, dtype=np.int32)
    supervised = labels != IGNORED
    edges = np.flatnonzero(np.diff(supervised.astype(np.int8), prepend=0, append=0))
    kind = np.where(supervised, SUPERVISED, PROMPT).astype(np.uint8)
    return Sample(conversation, ids, labels, kind, supervised, edges.reshape(-1, 2).astype(np.int64))


def block_messages(
    blocks: Sequence[Span], pieces: Sequence[Piece], messages: Sequence[dict[str, Any]]
) -> list[int | None]:
    """The index of the assistant message that each generation block renders, None where it cannot be told."""
    assistants = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
    if len(assistants) == len(blocks):
        return list(assistants)
    owners = []
    for start, end in blocks:
        inside = (piece.message for piece in pieces if piece.role == "assistant" and start <= piece.start < end)
        owners.append(next(inside, None))
    return owners


def _by_role(pieces: Sequence[Piece]) -> tuple[list[Span], list[Span]]:
    prompts = [(piece.start, piece.end) for piece in pieces]
    answers = [(piece.start, piece.end) for piece in pieces if piece.role == "assistant"]
    return prompts, answers


def _common_prefix(left: NDArray[np.int32], right: NDArray[np.int32]) -> int:
    size = min(len(left), len(right))
    different = np.flatnonzero(left[:size] != right[:size])
    return int(different[0]) if different.size else size


def _marker_list(marker: str | Sequence[str] | None) -> list[str]:
    if marker is None:
        return []
    return [marker] if isinstance(marker, str) else list(marker)
