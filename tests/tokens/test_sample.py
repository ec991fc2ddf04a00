from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.contract import SupervisionSection
from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.errors import LongctxError, TokenizerError
from pytest_longctx.tokens import encode
from pytest_longctx.tokens.build import make_sampler, measure
from tests.tokens.characters import BOS, END, EOS, PLAIN, START, characters, chat, codes, sample_of

USER = [START, *codes("user\n")]
ASSISTANT = [START, *codes("assistant\n")]
NEWLINE = codes("\n")


def labels(*parts):
    """Labels of parts: a number for as many ignored tokens, a list for supervised ids."""
    return [value for part in parts for value in ([-100] * part if isinstance(part, int) else part)]


def counts(sample):
    """Template, prompt, supervised and answer tokens."""
    return [*np.bincount(sample.kind, minlength=3).tolist(), int(sample.answer.sum())]


def test_a_turn_of_messages():
    sample = sample_of(chat("hi", "yo"))
    asked = [*USER, *codes("hi"), END, *NEWLINE]
    assert sample.ids.tolist() == [*asked, *ASSISTANT, *codes("yo"), END, *NEWLINE]
    assert sample.labels.tolist() == labels(10, 11, [*codes("yo"), END], 1)
    assert sample.turns.tolist() == [[21, 24]]
    assert counts(sample) == [20, 2, 3, 2]
    assert [sample.ids.dtype, sample.labels.dtype, sample.kind.dtype] == [np.int32, np.int32, np.uint8]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [("all", [[21, 24], [46, 50]]), ("last", [[46, 50]]), ("every_token", [[0, 51]])],
)
def test_which_turns_are_supervised(turns, expected):
    sample = sample_of(chat("hi", "yo", "so", "yes"), turns=turns)
    assert sample.turns.tolist() == expected


def test_an_empty_answer_has_supervised_tokens_but_no_answer_tokens():
    sample = sample_of(chat("hi", ""))
    assert counts(sample) == [20, 2, 1, 0]
    assert sample.labels[-2] == END


def test_weights_switch_turns_off():
    first = {"role": "assistant", "content": "yo", "weight": 0}
    second = {"role": "assistant", "content": "yes", "weight": 1}
    rows = chat("hi", first, "so", second)
    assert sample_of(rows, message_weight="weight").turns.tolist() == [[46, 50]]
    assert sample_of(rows, message_weight="train").turns.tolist() == [[21, 24], [46, 50]]
    swapped = chat("hi", {**first, "weight": None}, "so", {**second, "weight": False})
    assert sample_of(swapped, message_weight="weight").turns.tolist() == [[21, 24]]
    assert sample_of(swapped, message_weight="weight", turns="last").turns.tolist() == []


def test_text_is_supervised_whole_with_what_the_tokenizer_adds():
    tokenizer = characters(adds="<s> $A")
    sample = sample_of(Conversation("row", "f", 1, text="ab"), tokenizer)
    assert sample.ids.tolist() == [BOS, *codes("ab"), EOS]
    assert sample.labels.tolist() == sample.ids.tolist()
    assert sample.answer.tolist() == [False, True, True, False]
    ended = sample_of(Conversation("row", "f", 1, text="ab</s>"), tokenizer)
    assert ended.ids.tolist() == sample.ids.tolist()


def test_prompt_and_completion_as_text():
    row = Conversation("row", "f", 1, prompt="ab", completion="cd")
    sample = sample_of(row, characters(adds="<s> $A"))
    assert sample.ids.tolist() == [BOS, *codes("abcd"), EOS]
    assert sample.labels.tolist() == labels(3, [*codes("cd"), EOS])
    assert counts(sample) == [1, 2, 3, 2]
    assert sample.seam == 0
    whole = sample_of(row, turns="every_token")
    assert whole.labels.tolist() == [*codes("abcd"), EOS]


def test_a_tokenizer_that_ends_every_text_ends_the_prompt_too():
    row = Conversation("row", "f", 1, prompt="ab", completion="cd")
    sample = sample_of(row, characters(adds="$A </s>"))
    assert sample.ids.tolist() == [*codes("abcd"), EOS, EOS]
    assert sample.seam == 1  # the prompt alone is a, b, EOS
    assert sample.turns.tolist() == [[2, 6]]


COMPLETION = Conversation(
    "row",
    "f",
    1,
    prompt=[{"role": "user", "content": "hi"}],
    completion=[{"role": "assistant", "content": "yo"}],
)


def test_prompt_and_completion_as_messages():
    whole = [*USER, *codes("hi"), END, *NEWLINE, *ASSISTANT, *codes("yo"), END, *NEWLINE]
    completed = sample_of(COMPLETION, turns="completion")
    assert completed.ids.tolist() == whole
    assert completed.labels.tolist() == labels(
        21, [*codes("yo"), END, *NEWLINE]
    )  # the newline too, as in TRL
    answered = sample_of(COMPLETION, turns="all")
    assert answered.labels.tolist() == labels(21, [*codes("yo"), END], 1)  # both masks, as in TRL
    assert sample_of(COMPLETION, turns="every_token").labels.tolist() == whole


def test_answers_in_the_prompt_are_not_supervised():
    prompt = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}, *COMPLETION.prompt]
    sample = sample_of(Conversation("row", "f", 1, prompt=prompt, completion=COMPLETION.completion))
    assert sample.turns.tolist() == [[46, 49]]


def test_messages_of_a_plain_template_need_generation_blocks_unless_the_completion_is_wanted():
    plain = characters(PLAIN)
    assert sample_of(COMPLETION, plain, turns="completion").turns.tolist() == [[21, 25]]
    with pytest.raises(TokenizerError, match=r"or set supervision\.turns: completion"):
        sample_of(COMPLETION, plain)


def test_a_template_may_render_the_prompt_alone_otherwise():
    turns = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
    tokenizer = characters(turns + "{% if add_generation_prompt %}?{% endif %}")
    sample = sample_of(COMPLETION, tokenizer, turns="completion")
    assert sample.ids.tolist() == codes("u:hi;a:yo;")
    assert sample.seam == 1
    assert sample.turns.tolist() == [[5, 10]]


def test_markers_are_found_on_ids():
    rows = chat("hi", "yo", "so", "yes")
    both = ["<|im_start|>user\n", "<|im_start|>assistant\n"]
    one = sample_of(rows, characters(PLAIN), marker=both[1])
    assert one.turns.tolist() == [[46, 51]]
    two = sample_of(rows, characters(PLAIN), marker=both)
    assert two.turns.tolist() == [[21, 25], [46, 51]]  # up to the next instruction marker, newline included
    assert int(two.answer.sum()) == 5
    absent = sample_of(rows, characters(PLAIN), marker="### Answer")
    assert (absent.labels == -100).all()


def test_a_marker_in_a_text_row():
    sample = sample_of(Conversation("row", "f", 1, text="Q? A: yo"), marker="A: ")
    assert sample.labels.tolist() == labels(6, [*codes("yo"), EOS])


def test_tokenized_rows_keep_their_labels():
    row = Conversation("row", "f", 1, input_ids=[5, 6, 7, 8, 9], labels=[-100, 6, 7, -100, 9])
    sample = sample_of(row)
    assert sample.ids.tolist() == row.input_ids
    assert sample.labels.tolist() == row.labels
    assert sample.turns.tolist() == [[1, 3], [4, 5]]
    assert counts(sample) == [0, 2, 3, 3]


def test_a_block_of_rows_may_mix_all_shapes_in_order():
    rows = [
        chat("hi", "yo"),
        Conversation("t", "f", 2, text="ab"),
        Conversation("i", "f", 3, input_ids=[5], labels=[5]),
        Conversation("p", "f", 4, prompt="a", completion="b"),
        COMPLETION,
        Conversation("u", "f", 6, text="c"),
    ]
    tokenizer = characters(adds="<s> $A")
    sampler = make_sampler(tokenizer, SupervisionSection())
    together = list(sampler.samples(rows))
    assert [sample.conversation for sample in together] == rows
    for row, sample in zip(rows, together, strict=True):
        alone = sample_of(row, tokenizer)
        assert sample.ids.tolist() == alone.ids.tolist()
        assert sample.labels.tolist() == alone.labels.tolist()
    assert [int(sample.ids[0]) for sample in together] == [START, BOS, 5, BOS, START, BOS]


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_batches_ahead_of_each_other_keep_the_order(monkeypatch, size):
    monkeypatch.setattr(encode, "BATCH", size)
    rows = [None if at % 3 == 1 else chat("hi", "yo" * at, name=f"row-{at}") for at in range(23)]
    rows[6] = chat("hi", {"role": "bot", "content": "yo"})
    found = list(make_sampler(characters(), SupervisionSection()).samples(rows))
    assert [item is None for item in found] == [row is None for row in rows]
    assert isinstance(found[6], RowProblem)
    for row, item in zip(rows, found, strict=True):
        if row is None or row is rows[6]:
            continue
        assert item.conversation is row
        assert item.ids.tolist() == sample_of(row).ids.tolist()


def test_a_row_that_the_template_refuses():
    problem = sample_of(chat("hi", {"role": "bot", "content": "yo"}))
    assert isinstance(problem, RowProblem)
    assert problem.kind == "template_error"
    assert "unknown role: bot" in problem.message


def test_settings_that_no_row_can_meet():
    def refused(shape="messages", tokenizer=None, **terms):
        with pytest.raises(LongctxError) as caught:
            measure([], shape, tokenizer or characters(), SupervisionSection(**terms))
        return str(caught.value)

    assert "has no {% generation %} block" in refused(tokenizer=characters(PLAIN))
    assert "needs rows of prompt and completion" in refused(turns="completion")
    assert "message_weight" in refused(message_weight="weight", marker="x")
    assert "message_weight" in refused(message_weight="weight", turns="every_token")
    with pytest.raises(LongctxError, match="no section tokenizer"):
        measure([], "text", None, SupervisionSection())
    measure([], "messages", characters(PLAIN), SupervisionSection(marker="x"))
    measure([], "messages", characters(PLAIN), SupervisionSection(turns="every_token"))


def test_the_tokenizer_neither_cuts_nor_pads():
    tokenizer = characters()
    tokenizer.backend.backend_tokenizer.enable_truncation(4)
    tokenizer.backend.backend_tokenizer.enable_padding(length=64)
    assert len(sample_of(chat("hi", "yo"), tokenizer).ids) == 25


def test_arguments_keep_their_types_and_the_order_of_their_keys():
    arguments = {"z": 1, "a": 1.0, "yes": True, "none": None, "deep": {"b": [2, "two"], "a": False}}
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    sample = sample_of(chat("hi", {"role": "assistant", "content": None, "tool_calls": [call]}))
    text = '{"z": 1, "a": 1.0, "yes": true, "none": null, "deep": {"b": [2, "two"], "a": false}}'
    assert f'"arguments": {text}}}\n</tool_call><|im_end|>' in sample.draft.text
    assert int(sample.answer.sum()) == len(text) + len("f")
    assert sample_of(chat("hi", {"role": "assistant", "content": "yo", "tool_calls": None})).ids.size == 25
