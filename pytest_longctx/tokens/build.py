"""The one pass over the rows: conversations to samples, ledger and findings, block by block."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.errors import LongctxError
from pytest_longctx.tokens.inspect import MOST_WITNESSES, Findings, Inspector
from pytest_longctx.tokens.ledger import SampleWriter, Samples
from pytest_longctx.tokens.sample import Draft, Sampler, tokenized_sample
from pytest_longctx.tokens.scaffold import read_scaffold
from pytest_longctx.tokens.template import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from tokenizers import Encoding

    from pytest_longctx.contract import SupervisionSection
    from pytest_longctx.tokens.ledger import Ledger
    from pytest_longctx.tokens.tokenizer import Tokenizer

BLOCK = 256


@dataclass
class Measured:
    """All that the pass over the rows found.

    `samples` is None for shape `lengths`. `rejected` counts rows without a sample by kind; the first thousand
    stand in `problems`.
    """

    ledger: Ledger
    samples: Samples | None
    findings: Findings
    rows: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    problems: list[RowProblem] = field(default_factory=list)


class _Pass:
    def __init__(self, tokenizer: Tokenizer, terms: SupervisionSection) -> None:
        renderer = Renderer(tokenizer)
        scaffold = read_scaffold(renderer)
        self.sampler = Sampler(renderer, scaffold, terms)
        self.inspector = Inspector(tokenizer, scaffold, terms)
        self.encoder = tokenizer.backend.backend_tokenizer
        self.encoder.no_truncation()
        self.encoder.no_padding()
        self.writer = SampleWriter()
        self.rows, self.rejected, self.problems = 0, Counter[str](), list[RowProblem]()

    def reject(self, problem: RowProblem) -> None:
        self.rejected[problem.kind] += 1
        if len(self.problems) < MOST_WITNESSES:
            self.problems.append(problem)

    def block(self, items: Sequence[Conversation | RowProblem]) -> None:
        """One block of rows, in order."""
        drafts: list[Draft] = []
        for item in items:
            self.rows += 1
            if isinstance(item, RowProblem):
                self.reject(item)
            elif item.input_ids is not None:
                sample = tokenized_sample(item)
                self.writer.add(sample)
                self.inspector.inspect(sample)
            elif item.prompt_tokens is not None:
                self.writer.add_lengths(item.id, item.prompt_tokens, item.supervised_tokens or 0, item.slice)
            else:
                self._draft(item, drafts)
        self._finish(drafts)

    def _draft(self, conversation: Conversation, drafts: list[Draft]) -> None:
        draft = self.sampler.draft(conversation)
        if isinstance(draft, RowProblem):
            self.reject(draft)
        else:
            drafts.append(draft)

    def _finish(self, drafts: list[Draft]) -> None:
        prompts = self._encode([draft.prompt_text or "" for draft in drafts], drafts)
        encodings = self._encode([draft.text for draft in drafts], drafts)
        for draft, encoding, prompt in zip(drafts, encodings, prompts, strict=True):
            ids, offsets = _arrays(encoding)
            if len(ids) == 0:
                where = (draft.conversation.id, draft.conversation.file, draft.conversation.number)
                self.reject(RowProblem(*where, "empty_render", "the row renders to no token"))
                continue
            sample = self.sampler.finish(draft, ids, offsets, np.asarray(prompt.ids, dtype=np.int32))
            self.writer.add(sample)
            self.inspector.inspect(sample)

    def _encode(self, texts: list[str], drafts: list[Draft]) -> list[Encoding]:
        """Rust batches; plain text with the special tokens that the tokenizer adds, as TRL does."""
        if not any(texts):
            return [self.encoder.encode("", add_special_tokens=False)] * len(texts)
        special = drafts[0].special_tokens
        return list(self.encoder.encode_batch(texts, add_special_tokens=special))

    def result(self, *, lengths_only: bool) -> Measured:
        samples = None if lengths_only else self.writer.samples()
        ledger = samples.ledger if samples else self.writer.close()
        if lengths_only:
            self.writer.discard()
        return Measured(ledger, samples, self.inspector.findings, self.rows, self.rejected, self.problems)


def measure(
    items: Iterable[Conversation | RowProblem], shape: str, tokenizer: Tokenizer, terms: SupervisionSection
) -> Measured:
    """Render, tokenize and label every row once.

    Raises:
        TokenizerError: the template cannot supervise what the contract wants supervised.
    """
    work = _Pass(tokenizer, terms)
    try:
        _refuse(shape, work.sampler, terms)
        for block in _blocks(items):
            work.block(block)
        return work.result(lengths_only=shape == "lengths")
    except BaseException:
        work.writer.discard()
        raise


def _refuse(shape: str, sampler: Sampler, terms: SupervisionSection) -> None:
    conversational = shape in ("messages", "sharegpt", "alpaca")
    if conversational and (reason := sampler.check_template()):
        raise LongctxError(reason)
    if conversational and terms.turns == "completion":
        raise LongctxError(
            f"supervision.turns: completion needs rows of prompt and completion, found shape {shape}; use all or last"
        )


def _blocks(items: Iterable[Conversation | RowProblem]) -> Iterator[list[Conversation | RowProblem]]:
    iterator = iter(items)
    while block := list(islice(iterator, BLOCK)):
        yield block


def _arrays(encoding: Encoding) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    offsets = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)
    return np.array(encoding.ids, dtype=np.int32), offsets
