"""Every training template that TRL ships, over one grammar of conversations, against a slow reference."""

from __future__ import annotations

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pytest_longctx.contract import SupervisionSection
from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.errors import LongctxError
from pytest_longctx.tokens.build import make_sampler, measure
from pytest_longctx.tokens.inspect import Inspector
from pytest_longctx.tokens.inspect_rows import content_survives
from pytest_longctx.tokens.tokenizer import Tokenizer, trl_templates
from tests.templates import reference
from tests.templates.grammar import CASES
from tests.templates.table import CALL_TERMINATORS, TABLE, TERMINATORS, UNENDED_CALLS

pytestmark = [
    pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed"),
    pytest.mark.usefixtures("fixed_clock"),
]
EXAMPLE = Path(__file__).parents[2] / "examples" / "tokenizer"
TOKEN = re.compile(r"<\|?[\w/｜▁|]+\|?>|\[/?[A-Z_]+\]")


def shipped(pattern):
    return sorted(trl_templates().glob(pattern)) if find_spec("trl") else []


TRAINING = shipped("*_training.jinja")
STOCK = [path for path in shipped("*.jinja") if path not in TRAINING]


def load(path, source=None, plain=()):
    """The example tokenizer with the special tokens that the template writes; `plain` are not special."""
    from transformers import AutoTokenizer

    source = source or path.read_text(encoding="utf-8")
    backend = AutoTokenizer.from_pretrained(EXAMPLE)
    backend.add_tokens(sorted(set(TOKEN.findall(source)) - set(plain)), special_tokens=True)
    backend.add_tokens(sorted(plain))
    backend.bos_token = "<bos>"
    return Tokenizer(backend, source, path.stem, {}, "sha256:0")


def conversations():
    return [Conversation(name, "", 1, messages=m, tools=tools) for name, (m, tools) in CASES.items()]


def digest(tokenizer):
    return hashlib.sha256(tokenizer.template.encode()).hexdigest()[:8]


@pytest.fixture(params=TRAINING, ids=lambda path: path.stem)
def tokenizer(request):
    return load(request.param)


def test_spans_equal_the_reference(tokenizer):
    sampler = make_sampler(tokenizer, SupervisionSection())
    inspector = Inspector(sampler)
    template, special = reference.compiled(tokenizer.template), tokenizer.backend.special_tokens_map
    refused, lossy = set(), set()
    for row, sample in zip(conversations(), sampler.samples(conversations()), strict=True):
        if isinstance(sample, RowProblem):
            refused.add(row.id)
            continue
        text, blocks = reference.render(template, row.messages, row.tools, special)
        assert sample.draft.text == text, row.id
        assert_same_spans(sample, blocks, row.id)
        assert_same_texts(sample, template, special, row)
        witnesses = list(content_survives(inspector, sample))
        if row.tools:
            hidden = reference.render(template, row.messages, None, special)[0] == text
            assert [each.found for each in witnesses if each.note.startswith("tools")] == [0] * hidden
        if any(not each.note.startswith("tools") for each in witnesses):
            lossy.add(row.id)
    known = TABLE.get(tokenizer.template_name)
    if known is not None and known.digest == digest(tokenizer):
        assert refused == known.refused
        assert lossy == known.lossy


def assert_same_spans(sample, blocks, name):
    """Our labels, the reference's blocks, and the mask of transformers name the same tokens.

    They do so for every template of TRL 1.16: none writes its blocks into a macro or a captured variable,
    where transformers would count from a wrong place.
    """
    covered = np.zeros(len(sample.draft.text), dtype=bool)
    for start, end in blocks:
        covered[start:end] = True
    wanted = [bool(covered[start:end].any()) for start, end in sample.offsets.tolist()]
    assert (sample.labels != -100).tolist() == wanted, name
    assert sample.draft.spans == blocks, name


def assert_same_texts(sample, template, special, row):
    text = sample.draft.text
    for index, message in enumerate(row.messages):
        for key in ("content", "reasoning_content"):
            if isinstance(message.get(key), str):
                wanted = reference.find_text(template, row.messages, row.tools, special, index, key)
                mine = {trimmed(text, p) for p in sample.draft.located.pieces if p.message == index}
                assert wanted is None or wanted in mine, (row.id, index, key)


def trimmed(text, piece):
    part = text[piece.start : piece.end]
    return piece.start + len(part) - len(part.lstrip()), piece.end - len(part) + len(part.rstrip())


def test_the_mask_of_transformers_is_ours(tokenizer):
    sampler = make_sampler(tokenizer, SupervisionSection())
    for row, sample in zip(conversations(), sampler.samples(conversations()), strict=True):
        if isinstance(sample, RowProblem):
            continue
        theirs = tokenizer.backend.apply_chat_template(
            row.messages,
            tools=row.tools,
            chat_template=tokenizer.template,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        assert sample.ids.tolist() == theirs["input_ids"], row.id
        assert (sample.labels != -100).astype(int).tolist() == theirs["assistant_masks"], row.id


def test_the_end_of_turn_is_read_off_the_template(tokenizer):
    ends = make_sampler(tokenizer, SupervisionSection()).scaffold.terminators
    assert ends == TERMINATORS.get(tokenizer.template_name, ends)
    assert ends


def test_every_plain_conversation_trains_its_ends_of_turn(tokenizer):
    rows = [row for row in conversations() if row.id in ("one_turn", "parts")]
    found = measure(rows, "messages", tokenizer, SupervisionSection()).findings
    assert found.counts["supervision::turn_end"] == 0


def test_the_end_of_a_turn_that_calls_tools_is_read_off_the_template(tokenizer):
    found = make_sampler(tokenizer, SupervisionSection()).scaffold.call_terminator
    known = tokenizer.template_name in TABLE
    assert found == CALL_TERMINATORS.get(tokenizer.template_name, "" if known else found)


def calls_without_an_end(tokenizer):
    rows = [row for row in conversations() if row.id.startswith(("tool_call", "two_tool_calls"))]
    findings = measure(rows, "messages", tokenizer, SupervisionSection()).findings
    return {witness.id for witness in findings.witnesses.get("supervision::turn_end", ())}


def test_every_turn_that_calls_tools_trains_its_end(tokenizer):
    known = tokenizer.template_name in TABLE
    found = calls_without_an_end(tokenizer)
    assert found == UNENDED_CALLS.get(tokenizer.template_name, set() if known else found)


CALLING = [path for path in TRAINING if path.stem in CALL_TERMINATORS]


@pytest.mark.parametrize("path", CALLING, ids=lambda path: path.stem)
def test_a_turn_that_calls_tools_without_its_end_is_found(path):
    source = path.read_text(encoding="utf-8").replace(CALL_TERMINATORS[path.stem], "")
    tokenizer = load(path, source, plain={"</tool_call>"})
    assert calls_without_an_end(tokenizer) >= {"tool_call", "tool_call_last", "tool_call_content_null"}


@pytest.mark.parametrize("path", STOCK, ids=lambda path: path.stem)
def test_stock_templates_name_their_training_variant(path):
    tokenizer = load(path)
    if tokenizer.marks_generation:
        make_sampler(tokenizer, SupervisionSection())
        return
    with pytest.raises(LongctxError) as caught:
        measure([], "messages", tokenizer, SupervisionSection())
    assert "has no {% generation %} block, so nothing is supervised" in str(caught.value)
    if path.with_name(f"{path.stem}_training.jinja") in TRAINING:
        assert f"use trl:{path.stem}_training, TRL's training variant of it" in str(caught.value)
    else:
        assert "use a training variant (trl:…_training)" in str(caught.value)
