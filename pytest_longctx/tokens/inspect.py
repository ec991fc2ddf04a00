"""What one sample shows of its row, template and labels, found in the one pass over the rows."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_longctx.tokens import inspect_labels, inspect_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from pytest_longctx.contract import SupervisionSection
    from pytest_longctx.tokens.sample import Sample, Sampler
    from pytest_longctx.witness import Witness


class Inspector:
    """Runs every inspection over a sample; the first offence of a row is its witness.

    bos: the id of a BOS that is not the EOS as well. adds_bos: whether the tokenizer puts it before plain
    text. structural: added tokens that the template writes, and special ones. special: special tokens alone.
    ends: ids of single tokens that end a turn. header: the ids that open an assistant turn.
    """

    def __init__(self, sampler: Sampler) -> None:
        backend, template = sampler.tokenizer.backend, sampler.tokenizer.template or ""
        self.sampler, self.scaffold = sampler, sampler.scaffold
        self._others: dict[Sampler, Inspector] = {}
        self.terms: SupervisionSection = sampler.terms
        self.bos = backend.bos_token_id if backend.bos_token_id != backend.eos_token_id else None
        self.adds_bos = self.bos is not None and backend("a")["input_ids"][:1] == [self.bos]
        special = sampler.tokenizer.special
        written = {token for token in backend.added_tokens_encoder if token in template}
        self.special, self.structural = AnyOf(special), AnyOf(special | written)

    @cached_property
    def ends(self) -> frozenset[int]:
        """Ids of single tokens that end a turn, the EOS among them."""
        found = {self.sampler.tokenizer.backend.eos_token_id}
        for end in self.scaffold.terminators or ():
            ids = self.sampler.plain_ids(end)
            found.update(ids.tolist() if len(ids) == 1 else ())
        return frozenset(found - {None})

    @cached_property
    def ordinary(self) -> frozenset[str]:
        """The terminators without an added token: ordinary text, be it a token of its own."""
        added = self.sampler.tokenizer.backend.added_tokens_encoder
        ends = self.scaffold.terminators or ()
        return frozenset(end for end in ends if not any(token in end for token in added))

    @cached_property
    def normalize(self) -> Callable[[str], str] | None:
        """The tokenizer's normalizer of texts, None where it has none."""
        normalizer = self.sampler.encoder.rust.normalizer
        normalize: Callable[[str], str] | None = normalizer and normalizer.normalize_str
        return normalize

    @cached_property
    def closings(self) -> frozenset[int]:
        """Ids one of which closes a whole row that the template rendered; empty where that cannot be told."""
        ends = self.scaffold.terminators or ()
        ids = [self.sampler.plain_ids(end) for end in (*ends, self.scaffold.call_terminator) if end]
        if not ends or any(len(each) != 1 for each in ids):
            return frozenset()
        return self.ends.union(*(each.tolist() for each in ids))

    @cached_property
    def header(self) -> NDArray[np.int32]:
        """int32[h], the ids that open an assistant turn; empty where they are not known."""
        return self.sampler.plain_ids(self.scaffold.header)

    def _inspector(self, sampler: Sampler) -> Inspector:
        """The inspector of rows that another template renders, or this one."""
        if sampler is self.sampler:
            return self
        if sampler not in self._others:
            self._others[sampler] = Inspector(sampler)
        return self._others[sampler]

    def offences(self, sample: Sample) -> list[tuple[str, Witness]]:
        """The offences of one sample, with the checks that they concern."""
        own = self._inspector(self.sampler.of(sample.conversation))
        found = ((check, next(inspection(own, sample), None)) for check, inspection in INSPECTIONS.items())
        return [(check, witness) for check, witness in found if witness is not None]


class AnyOf:
    """Finds the first of many tokens in a text, the longest where several start.

    A regular expression of a thousand alternatives takes half a second to compile; this one has only their
    first two characters.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._tokens = frozenset(token for token in tokens if token.strip())
        self._sizes = sorted({len(token) for token in self._tokens}, reverse=True)
        starts = sorted({token[:2] for token in self._tokens}, key=len, reverse=True)
        self._starts = re.compile("|".join(map(re.escape, starts)) or "(?!)")

    def search(self, text: str) -> str | None:
        """The token found, or None."""
        begun = self._starts.search(text)
        while begun is not None:
            for size in self._sizes:
                token = text[begun.start() : begun.start() + size]
                if token in self._tokens:
                    return token
            begun = self._starts.search(text, begun.start() + 1)
        return None


INSPECTIONS: dict[str, Callable[[Inspector, Sample], Iterator[Witness]]] = {
    "tokenizer::single_bos": inspect_rows.single_bos,
    "tokenizer::offsets": inspect_rows.offsets,
    "dataset::roles": inspect_rows.roles,
    "dataset::tool_arguments": inspect_rows.tool_arguments,
    "dataset::content_survives": inspect_rows.content_survives,
    "dataset::control_tokens": inspect_rows.control_tokens,
    "supervision::present": inspect_labels.present,
    "supervision::roles": inspect_labels.roles,
    "supervision::turns": inspect_labels.turns,
    "supervision::turn_end": inspect_labels.turn_end,
    "supervision::labels_match_ids": inspect_labels.labels_match_ids,
    "supervision::prompt_prefix": inspect_labels.prompt_prefix,
    "supervision::message_weight": inspect_labels.message_weight,
}
