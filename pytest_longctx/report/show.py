"""One sample for a reader's eyes: its tokens by span and label. The only place that prints row text."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.dataset import RowProblem
from pytest_longctx.errors import LongctxError
from pytest_longctx.report.text import plain
from pytest_longctx.tokens.sample import IGNORED, SUPERVISED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_longctx.dataset import Conversation
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.tokens.sample import Sample

KINDS = ("template", "prompt", "supervised")
ANSWER, SCAFFOLDING, WRONG = "answer", "supervised", "label is another id"
COLOURS = {"template": "90", "prompt": "36", SCAFFOLDING: "33", ANSWER: "32", WRONG: "31"}


def show_row(evidence: Evidence, row_id: str, *, colour: bool) -> Iterator[str]:
    """The lines that show a row: what it is made of, then its tokens in runs of one kind.

    Raises:
        LongctxError: the row is not there, cannot be used, or has only lengths.
    """
    sample = evidence.sampler.sample(_find(evidence, row_id))
    if isinstance(sample, RowProblem):
        raise LongctxError(f"row {row_id}: {sample.kind}, {sample.message}")
    counts = np.bincount(sample.kind, minlength=3).tolist()
    parts = ", ".join(f"{name} {count:,}" for name, count in zip(KINDS, counts, strict=True))
    yield f"row {row_id}: {len(sample.ids):,} tokens: {parts}, answer {int(sample.answer.sum()):,}"
    yield from _runs(sample, evidence, colour=colour)


def _find(evidence: Evidence, row_id: str) -> Conversation:
    for item in evidence.dataset:
        if item.id == row_id:
            if isinstance(item, RowProblem):
                raise LongctxError(f"row {row_id}: {item.kind}, {item.message}")
            if item.prompt_tokens is not None:
                raise LongctxError(f"row {row_id} has only lengths, no text to show")
            return item
    raise LongctxError(f"there is no row {row_id!r}; ids are those of dataset.id, else file:row")


def _runs(sample: Sample, evidence: Evidence, *, colour: bool) -> Iterator[str]:
    """One line a run: position, number of tokens, kind, and the text."""
    backend = evidence.tokenizer.backend
    at = 0
    for name, run in groupby(_names(sample)):
        size = len(list(run))
        text = plain(str(backend.decode(sample.ids[at : at + size].tolist())).replace("\n", "⏎"))
        shown = f"\x1b[{COLOURS[name]}m{text}\x1b[0m" if colour else text
        yield f"{at:>7} {size:>6} {name:<12} {shown}"
        at += size


def _names(sample: Sample) -> list[str]:
    wrong = (sample.labels != IGNORED) & (sample.labels != sample.ids)
    columns = zip(sample.kind.tolist(), sample.answer.tolist(), wrong.tolist(), strict=True)
    return [
        WRONG if differs else ANSWER if answer else SCAFFOLDING if kind == SUPERVISED else KINDS[kind]
        for kind, answer, differs in columns
    ]
