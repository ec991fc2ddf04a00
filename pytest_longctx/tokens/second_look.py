"""Second renderings of some rows: what a clock, more turns or a loader would change."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.tokens.sample import common_prefix
from pytest_longctx.tokens.template import RenderError
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_longctx.dataset import Dataset
    from pytest_longctx.tokens.sample import Sampler
    from pytest_longctx.tokens.template import Messages, Rendering

ROWS = 48
_KEPT = 100
_CLOCKS = (datetime(2001, 2, 3, 4, 5, 6), datetime(2038, 11, 22, 20, 45, 54))


@dataclass
class SecondLook:
    """What was found in the rows that were rendered again.

    rows: how many were. offences: rows that came out otherwise; the first hundred are in `witnesses`.
    unlocked_by: why nothing could be judged, and what it takes; empty where something was. refused: why the
    loader does not read the files at all.
    """

    rows: int = 0
    offences: int = 0
    witnesses: list[Witness] = field(default_factory=list)
    unlocked_by: str = ""
    refused: str = ""

    def add(self, witness: Witness | None) -> None:
        """Count one row, and its offence where it has one."""
        self.rows += 1
        if witness is not None:
            self.offences += 1
            if len(self.witnesses) < _KEPT:
                self.witnesses.append(witness)


def spread(rows: int, wanted: int) -> frozenset[int]:
    """Numbers of up to `wanted` rows out of `rows`, counted from 0, evenly spread, the last one included."""
    return frozenset(np.linspace(0, rows - 1, min(rows, wanted)).round().astype(int).tolist())


def some_rows(dataset: Dataset, rows: int, *, exhaustive: bool = False) -> Iterator[Conversation]:
    """The conversations among an even spread of the rows, or all of them."""
    chosen = spread(rows, rows if exhaustive else ROWS)
    return (item for item in dataset.at(sorted(chosen)) if isinstance(item, Conversation))


def two_clocks(conversations: Iterable[Conversation], sampler: Sampler) -> SecondLook:
    """Whether a row has the same ids whenever it is rendered."""
    look = SecondLook()
    for conversation in conversations:
        if conversation.messages is None and not isinstance(conversation.prompt, list):
            continue
        texts = []
        for clock in _CLOCKS:
            with _clock_at(clock):
                texts.append(_text(conversation, sampler))
        look.add(_moved(conversation, sampler, *texts))
    return look


def _text(conversation: Conversation, sampler: Sampler) -> str:
    draft = sampler.draft(conversation)
    return "" if isinstance(draft, RowProblem) else draft.text + (draft.prompt_text or "")


def _moved(conversation: Conversation, sampler: Sampler, first: str, second: str) -> Witness | None:
    if first == second:
        return None
    before, after = sampler.plain_ids(first), sampler.plain_ids(second)
    if np.array_equal(before, after):
        return None
    return Witness(
        conversation.id, "the same ids", "other ids a day later", position=common_prefix(before, after)
    )


@contextmanager
def _clock_at(clock: datetime) -> Iterator[None]:
    """The clock that `strftime_now` of a template reads shows one fixed time."""
    from transformers.utils import chat_template_utils

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return clock.replace(tzinfo=tz)

    module: Any = chat_template_utils
    own = module.datetime
    module.datetime = Clock
    try:
        yield
    finally:
        module.datetime = own


def growing_prefixes(conversations: Iterable[Conversation], sampler: Sampler) -> SecondLook:
    """Whether a conversation up to each answer has ids with which the whole conversation starts.

    A template claims it when it holds for two plain turns. One that rewrites earlier turns by design (it
    drops their reasoning, or ends only the last turn) does not, and is not judged.
    """
    look, claims = SecondLook(), {sampler: _claims_prefixes(sampler)}
    for conversation in conversations:
        own = sampler.of(conversation)
        if own not in claims:
            claims[own] = _claims_prefixes(own)
        messages = (conversation.messages or []) if claims[own] else []
        ends = [at + 1 for at, message in enumerate(messages) if message.get("role") == "assistant"]
        if len(ends) > 1 or (ends and ends[0] < len(messages)):
            look.add(_broken_prefix(conversation, messages, ends, sampler))
    if not look.rows and not all(claims.values()):
        look.unlocked_by = (
            "the template renders an earlier turn otherwise once another follows; "
            "one that keeps prefixes, such as TRL's training templates, can be judged"
        )
    return look


def _claims_prefixes(sampler: Sampler) -> bool:
    turn: Messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    probe = Conversation("probe", "", 0, messages=turn + turn)
    return _broken_prefix(probe, turn + turn, [2], sampler) is None


def _broken_prefix(
    conversation: Conversation, messages: Messages, ends: list[int], sampler: Sampler
) -> Witness | None:
    """Texts are compared for every part, ids for those that differ and for the longest one."""
    try:
        whole = _rendered(conversation, messages, sampler).text
        parts = [(end, _rendered(conversation, messages[:end], sampler).text) for end in ends]
    except RenderError as error:
        return Witness(conversation.id, note=f"a part of the conversation is refused: {error}")
    longest = max((end for end in ends if end < len(messages)), default=0)
    for end, part in parts:
        if end == longest or not whole.startswith(part):
            ids, whole_ids = sampler.plain_ids(part), sampler.plain_ids(whole)
            same = common_prefix(ids, whole_ids)
            if same < len(ids):
                note = f"messages 0 to {end - 1} render otherwise alone"
                return Witness(conversation.id, len(ids), same, position=same, note=note)
    return None


def _rendered(conversation: Conversation, messages: Messages, sampler: Sampler) -> Rendering:
    return sampler.of(conversation).renderer.render(
        messages, conversation.tools, conversation.template_kwargs
    )
