"""One conversation to one sample: ids, labels, and what each token is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.errors import TokenizerError
from pytest_longctx.tokens.align import joined, paint, token_spans
from pytest_longctx.tokens.encode import TextEncoder, batches
from pytest_longctx.tokens.locate import Located, Piece, locate, plain_answer
from pytest_longctx.tokens.marker import marked_spans
from pytest_longctx.tokens.template import RenderError, no_generation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from pytest_longctx.contract import SupervisionSection
    from pytest_longctx.tokens.align import Span
    from pytest_longctx.tokens.encode import Encoded
    from pytest_longctx.tokens.scaffold import Scaffold
    from pytest_longctx.tokens.template import Renderer

TEMPLATE, PROMPT, SUPERVISED = 0, 1, 2
IGNORED = -100

# Batches that the tokenizer works on while others are rendered and finished: with fewer, it waits for Python.
AHEAD = 3


@dataclass(slots=True)
class Draft:
    """A conversation as text, before the tokenizer.

    spans: the supervised characters; None means that they follow from a marker, or else are the whole text.
    prompt_text: what stands in front of the completion, rendered alone; supervision starts where its ids and
    the whole's part. special_tokens: whether the tokenizer adds its own, as trainers have it for plain text.
    """

    conversation: Conversation
    text: str
    special_tokens: bool
    spans: list[Span] | None = None
    prompt_text: str | None = None
    located: Located = field(default_factory=lambda: Located([], []))


@dataclass(slots=True)
class Sample:
    """A conversation as tokens.

    ids, labels: int32[T]; kind: uint8[T] of TEMPLATE, PROMPT, SUPERVISED; answer: bool[T], supervised tokens
    that come from the message text; turns: int64[k, 2], supervised spans in tokens, none of which touch;
    seam: prompt tokens that the whole text tokenizes otherwise; pieces: int64[p, 2], tokens of the draft's
    pieces; offsets: int32[T, 2] in characters of the draft's text, and edges, the same made monotone.
    """

    conversation: Conversation
    ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    kind: NDArray[np.uint8]
    answer: NDArray[np.bool_]
    turns: NDArray[np.int64]
    seam: int = 0
    draft: Draft | None = None
    pieces: NDArray[np.int64] = field(default_factory=lambda: _NO_SPANS)
    offsets: NDArray[np.int32] = field(default_factory=lambda: _NO_OFFSETS)
    edges: NDArray[np.int32] = field(default_factory=lambda: _NO_OFFSETS)


_Begun: TypeAlias = Draft | Sample | RowProblem | None

_NO_SPANS: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
_NO_OFFSETS: NDArray[np.int32] = np.empty((0, 2), dtype=np.int32)


class Sampler:
    """The contract's supervision policy over one renderer."""

    def __init__(self, renderer: Renderer, scaffold: Scaffold, terms: SupervisionSection) -> None:
        self.renderer, self.scaffold, self.terms = renderer, scaffold, terms
        self.tokenizer = renderer.tokenizer
        self.encoder = TextEncoder(self.tokenizer.backend.backend_tokenizer)
        self.markers = [self.plain_ids(marker) for marker in _marker_list(terms.marker)]
        self._by_blocks = terms.turns in ("all", "last") and not self.markers

    def of(self, conversation: Conversation) -> Sampler:
        """The sampler over the template that renders this row."""
        return self

    def plain_ids(self, text: str) -> NDArray[np.int32]:
        """int32[n], the ids of a text without special tokens around it."""
        return self.encoder.ids([text], special=False)[0]

    def sample(self, conversation: Conversation) -> Sample | RowProblem:
        """One conversation alone, as `samples` gives it."""
        return next(found for found in self.samples([conversation]) if found is not None)

    def samples(self, conversations: Iterable[Conversation | None]) -> Iterator[Sample | RowProblem | None]:
        """Conversations of any shape with tokens, each as a sample or what is wrong with it; None stays None.

        A row that renders to no token is a sample of none.
        """
        waiting: deque[Callable[[], Iterator[Sample | RowProblem | None]]] = deque()
        for batch in batches(map(self._begin, conversations), _characters):
            waiting.append(self._encode(batch))
            if len(waiting) > AHEAD:
                yield from waiting.popleft()()
        for finished in waiting:
            yield from finished()

    def _begin(self, conversation: Conversation | None) -> _Begun:
        if conversation is None:
            return None
        if conversation.input_ids is not None:
            return tokenized_sample(conversation)
        return self.draft(conversation)

    def _encode(self, batch: list[_Begun]) -> Callable[[], Iterator[Sample | RowProblem | None]]:
        """Begin to encode the drafts, those apart that the tokenizer adds special tokens to."""
        begun = {
            special: self.encoder.begin(
                [item.text for item in batch if isinstance(item, Draft) and item.special_tokens == special],
                special=special,
            )
            for special in (False, True)
        }

        def finished() -> Iterator[Sample | RowProblem | None]:
            wholes = {special: encoded() for special, encoded in begun.items()}
            prompts = {special: self._prompts(batch, special) for special in begun}
            for item in batch:
                if isinstance(item, Draft):
                    special = item.special_tokens
                    prompt = None if item.prompt_text is None else next(prompts[special])
                    yield self.finish(item, next(wholes[special]), prompt)
                else:
                    yield item

        return finished

    def _prompts(self, batch: list[_Begun], special: bool) -> Iterator[NDArray[np.int32]]:
        """The ids of what stands in front of the completions, for rows where supervision starts behind it."""
        drafts = [item for item in batch if isinstance(item, Draft) and item.special_tokens == special]
        texts = [draft.prompt_text for draft in drafts if draft.prompt_text is not None]
        return iter(self.encoder.ids(texts, special=special))

    def draft(self, conversation: Conversation) -> Draft | RowProblem:
        """The text of a conversation that has one.

        Raises:
            TokenizerError: the template cannot supervise what the contract wants supervised.
        """
        try:
            if conversation.messages is not None:
                return self._messages(conversation, conversation.messages)
            if conversation.text is not None:
                return self._text(conversation, conversation.text)
            if isinstance(conversation.prompt, str) and isinstance(conversation.completion, str):
                return self._plain_completion(conversation, conversation.prompt, conversation.completion)
            return self._completion(conversation)
        except RenderError as error:
            where = (conversation.id, conversation.file, conversation.number)
            return RowProblem(*where, "template_error", f"the chat template refuses the row: {error}")

    def _messages(self, conversation: Conversation, messages: list[dict[str, Any]]) -> Draft:
        rendering = self.renderer.render(messages, conversation.tools, conversation.template_kwargs)
        located = locate(rendering.text, rendering.blocks, messages, conversation.tools, self.scaffold.leads)
        spans = self._trained(rendering.blocks, located.pieces, messages) if self._by_blocks else None
        return Draft(conversation, rendering.text, False, spans, None, located)

    def _trained(
        self, blocks: list[Span], pieces: Sequence[Piece], messages: list[dict[str, Any]]
    ) -> list[Span]:
        chosen = list(enumerate(blocks))[-1:] if self.terms.turns == "last" else list(enumerate(blocks))
        if key := self.terms.message_weight:
            owners = block_messages(blocks, pieces, messages)
            weights = [1 if owner is None else messages[owner].get(key) for owner in owners]
            chosen = [(at, block) for at, block in chosen if weights[at] is None or weights[at]]
        return [block for _, block in chosen]

    def _text(self, conversation: Conversation, text: str) -> Draft:
        located = Located(plain_answer(0, text, 0), [])
        return Draft(conversation, self._with_eos(text), True, None, None, located)

    def _with_eos(self, text: str) -> str:
        eos = self.tokenizer.backend.eos_token or ""
        return text if text.endswith(eos) else text + eos

    def _plain_completion(self, conversation: Conversation, prompt: str, completion: str) -> Draft:
        seam = len(prompt)
        pieces = [Piece(0, seam, 0, "user"), *plain_answer(seam, completion, 1)]
        whole = prompt + self._with_eos(completion)
        return Draft(conversation, whole, True, None, self._prompt(prompt), Located(pieces, []))

    def _completion(self, conversation: Conversation) -> Draft:
        if self._by_blocks and not self.tokenizer.marks_generation:
            raise TokenizerError(f"{no_generation(self.tokenizer)}; or set supervision.turns: completion")
        prompt = _as_messages(conversation.prompt)
        draft = self._messages(conversation, [*prompt, *_as_messages(conversation.completion)])
        settings = (conversation.tools, conversation.template_kwargs)
        alone = self.renderer.render(prompt, *settings, add_generation_prompt=True)
        draft.prompt_text = self._prompt(alone.text)
        return draft

    def _prompt(self, text: str) -> str | None:
        """The prompt's text where supervision starts behind it."""
        return None if self.markers or self.terms.turns == "every_token" else text

    def finish(self, draft: Draft, encoded: Encoded, prompt: NDArray[np.int32] | None) -> Sample:
        """Tokens of a draft, told apart."""
        ids, edges, located = encoded.ids, encoded.edges, draft.located.pieces
        spans = draft.spans or []
        both = token_spans(edges, [*spans, *((piece.start, piece.end) for piece in located)])
        turns, pieces = both[: len(spans)], both[len(spans) :]
        seam = 0
        if draft.spans is None:
            turns = self._all_or_marked(ids)
        if prompt is not None:
            common = common_prefix(prompt, ids)
            seam = len(prompt) - common
            turns = np.maximum(turns, common)
        turns = joined(turns)
        kind, answer = np.zeros(len(ids), dtype=np.uint8), np.zeros(len(ids), dtype=np.bool_)
        paint(kind, pieces, PROMPT)
        paint(kind, turns, SUPERVISED)
        supervised = kind == SUPERVISED
        paint(answer, pieces[[piece.role == "assistant" for piece in located]], True)
        answer &= supervised
        labels = np.where(supervised, ids, np.int32(IGNORED))
        return Sample(
            draft.conversation, ids, labels, kind, answer, turns, seam, draft, pieces, encoded.offsets, edges
        )

    def _all_or_marked(self, ids: NDArray[np.int32]) -> NDArray[np.int64]:
        if self.markers:
            return marked_spans(ids, self.markers)
        return np.array([[0, len(ids)]], dtype=np.int64)

    def check_template(self) -> str | None:
        """Why conversations of messages cannot be supervised as the contract wants it, or None."""
        lacking = self._by_blocks and not self.tokenizer.marks_generation
        return no_generation(self.tokenizer) if lacking else None


def _characters(item: _Begun) -> int:
    return len(item.text) if isinstance(item, Draft) else 0


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
        inside = (
            piece.message for piece in pieces if piece.role == "assistant" and start <= piece.start < end
        )
        owners.append(next(inside, None))
    return owners


def common_prefix(left: NDArray[np.int32], right: NDArray[np.int32]) -> int:
    """The number of leading ids that both have in common."""
    size = min(len(left), len(right))
    different = np.flatnonzero(left[:size] != right[:size])
    return int(different[0]) if different.size else size


def _as_messages(part: list[dict[str, Any]] | str | None) -> list[dict[str, Any]]:
    return part if isinstance(part, list) else []


def _marker_list(marker: str | Sequence[str] | None) -> list[str]:
    if marker is None:
        return []
    return [marker] if isinstance(marker, str) else list(marker)
