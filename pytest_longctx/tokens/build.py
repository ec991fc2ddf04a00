"""The one pass over the rows: conversations to samples, ledger and findings, block by block."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.errors import LongctxError
from pytest_longctx.tokens.entry import Entry, NothingKnown, entry_of
from pytest_longctx.tokens.findings import MOST_WITNESSES, Findings
from pytest_longctx.tokens.inspect import Inspector
from pytest_longctx.tokens.ledger import Samples, SampleWriter
from pytest_longctx.tokens.sample import Sampler
from pytest_longctx.tokens.scaffold import read_scaffold
from pytest_longctx.tokens.template import Renderer
from pytest_longctx.tokens.with_tools import SamplerByTools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_longctx.contract import SupervisionSection
    from pytest_longctx.tokens.entry import Known
    from pytest_longctx.tokens.ledger import Ledger
    from pytest_longctx.tokens.tokenizer import Tokenizer

_LookedUp: TypeAlias = "tuple[Conversation | RowProblem, bytes | None, Entry | None]"

BLOCK = 256
MESSAGE_SHAPES = ("messages", "sharegpt", "alpaca")


@dataclass
class Measured:
    """All that the pass over the rows found.

    samples: None for shape `lengths`. rejected: rows without a sample by kind; the first ten thousand stand
    in `problems`. population: all rows of the dataset, where only some were drawn.
    """

    ledger: Ledger
    samples: Samples | None
    findings: Findings
    rows: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    problems: list[RowProblem] = field(default_factory=list)
    population: int | None = None

    def reject(self, problem: RowProblem) -> None:
        """Count a row without a sample."""
        self.rejected[problem.kind] += 1
        if len(self.problems) < MOST_WITNESSES:
            self.problems.append(problem)


def make_sampler(tokenizer: Tokenizer, terms: SupervisionSection) -> Sampler:
    """The supervision policy over the tokenizer's template."""
    renderer = Renderer(tokenizer)
    sampler = Sampler(renderer, read_scaffold(renderer), terms)
    if tokenizer.with_tools is None:
        return sampler
    return SamplerByTools(sampler, make_sampler(tokenizer.with_tools, terms))


def measure(
    items: Iterable[Conversation | RowProblem],
    shape: str,
    tokenizer: Tokenizer | None,
    terms: SupervisionSection,
    *,
    known: Known | None = None,
    inspect: bool = True,
) -> Measured:
    """Render, tokenize and label every row once.

    Args:
        shape: of the rows; `lengths` needs no tokenizer, every other one does.
        known: entries of rows that need not be measured again.
        inspect: whether to look for what the checks of tokenizer, dataset and supervision want to know.

    Raises:
        LongctxError: the template cannot supervise what the contract wants supervised.
    """
    writer = SampleWriter()
    try:
        if shape == "lengths":
            return _measure_lengths(items, writer)
        sampler = sampler_for(shape, tokenizer, terms)
        store = NothingKnown() if known is None else known
        return _measure_tokens(entries(items, sampler, store, inspect=inspect), writer)
    except BaseException:
        writer.discard()
        raise


def sampler_for(shape: str, tokenizer: Tokenizer | None, terms: SupervisionSection) -> Sampler:
    """The sampler for rows of a shape with texts or tokens.

    Raises:
        LongctxError: no row of the shape can be supervised as the contract wants it.
    """
    if tokenizer is None:
        raise LongctxError(f"the contract has no section tokenizer, which rows of shape {shape} need")
    sampler = make_sampler(tokenizer, terms)
    _refuse(shape, sampler)
    return sampler


def _measure_lengths(items: Iterable[Conversation | RowProblem], writer: SampleWriter) -> Measured:
    measured = Measured(writer.empty(), None, Findings())
    for item in items:
        measured.rows += 1
        if isinstance(item, RowProblem):
            measured.reject(item)
        else:
            writer.add_lengths(item.id, item.prompt_tokens or 0, item.supervised_tokens or 0, item.slice)
    measured.ledger = writer.close()
    return measured


def _measure_tokens(
    items: Iterable[tuple[Conversation, Entry] | RowProblem], writer: SampleWriter
) -> Measured:
    measured = Measured(writer.empty(), None, Findings())
    for item in items:
        measured.rows += 1
        if isinstance(item, RowProblem):
            measured.reject(item)
            continue
        row, entry = item
        for check, witness in entry.offences:
            measured.findings.add(check, replace(witness, id=row.id))
        if len(entry.ids):
            writer.add(row.id, row.slice, entry)
        else:
            measured.reject(_empty(row))
    measured.samples = writer.samples()
    measured.ledger = measured.samples.ledger
    return measured


def entries(
    items: Iterable[Conversation | RowProblem], sampler: Sampler, known: Known, *, inspect: bool = True
) -> Iterator[tuple[Conversation, Entry] | RowProblem]:
    """Every row with its entry, or what is wrong with it; what is not known is measured and kept."""
    inspector = Inspector(sampler)
    ahead: deque[_LookedUp] = deque()
    for found in sampler.samples(_unknown(items, known, ahead)):
        item, key, entry = ahead.popleft()
        if isinstance(item, RowProblem):
            yield item
        elif entry is not None:
            yield item, entry
        elif isinstance(found, RowProblem):
            yield found
        elif found is not None:
            entry = entry_of(found, inspector.offences(found) if inspect else ())
            if key is not None:
                known.add(key, entry)
            yield item, entry


def _unknown(
    items: Iterable[Conversation | RowProblem], known: Known, ahead: deque[_LookedUp]
) -> Iterator[Conversation | None]:
    """Every row that must be measured, and None in the place of other items; `ahead` takes all of them."""
    iterator = iter(items)
    while block := list(islice(iterator, BLOCK)):
        keys, found = known.find([item for item in block if isinstance(item, Conversation)])
        places = iter(zip(keys, found, strict=True))
        for item in block:
            if isinstance(item, RowProblem):
                ahead.append((item, None, None))
                yield None
            else:
                key, entry = next(places)
                ahead.append((item, key, entry))
                yield item if entry is None else None


def _empty(conversation: Conversation) -> RowProblem:
    where = (conversation.id, conversation.file, conversation.number)
    return RowProblem(*where, "empty_render", "the row renders to no token")


def _refuse(shape: str, sampler: Sampler) -> None:
    """Settings that no row of the shape can meet."""
    terms, messages = sampler.terms, shape in MESSAGE_SHAPES
    if messages and (reason := sampler.check_template()):
        raise LongctxError(reason)
    if messages and terms.turns == "completion":
        raise LongctxError(
            f"supervision.turns: completion needs rows of prompt and completion, found shape {shape}; "
            "use all or last"
        )
    if terms.message_weight and (terms.marker or terms.turns not in ("all", "last")):
        raise LongctxError(
            "supervision.message_weight: weights are told apart by {% generation %} blocks, "
            "so they need turns: all or last, and no marker"
        )
