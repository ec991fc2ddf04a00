"""What counts as an answer: white space does not, nor does reasoning that is, and reasoning has an end."""

from __future__ import annotations

import pytest

from pytest_longctx.dataset import Conversation
from tests.tokens.characters import chat, findings_of, sample_of, witness_of


@pytest.mark.parametrize("nothing", ["", "  \n\t", "<think>\n</think>\n\n", "<think></think>", "\n</think>"])
def test_an_answer_of_white_space_is_a_turn_that_trains_nothing(nothing):
    conversation = chat("hi", nothing, "so", "yes")
    assert findings_of(conversation) == {"supervision::turns"}
    witness = witness_of("supervision::turns", conversation)
    assert witness.note == "answer tokens per assistant turn [0, 3]; the policy trains turns [0, 1]"


@pytest.mark.parametrize("content", ["<think>\n</think>\nyo", "<think>hm</think>\n"])
def test_reasoning_of_white_space_before_an_answer_and_reasoning_alone_are_answers(content):
    conversation = chat("hi", content)
    assert findings_of(conversation) == set()
    assert int(sample_of(conversation).answer.sum()) == len(content)


def test_a_call_behind_reasoning_of_white_space_is_an_answer():
    call = {"function": {"name": "add", "arguments": {}}}
    message = {"role": "assistant", "content": "<think>\n</think>\n", "tool_calls": [call]}
    assert findings_of(chat("hi", message)) == set()


@pytest.mark.parametrize("nothing", ["", " ", "  \n", "<think>\n</think>\n\n"])
def test_a_completion_of_white_space_is_no_answer(nothing):
    row = Conversation("row", "f", 1, prompt="ab", completion=nothing)
    assert findings_of(row, shape="prompt_completion") == {"supervision::present"}


def test_a_text_of_white_space_has_nothing_to_learn():
    row = Conversation("row", "f", 1, text=" \n")
    assert findings_of(row, shape="text") == {"supervision::present"}


@pytest.mark.parametrize("content", ["<think>hm", " \n<think>\nhm", [{"type": "text", "text": "<think>hm"}]])
def test_reasoning_that_does_not_end(content):
    row = chat("hi", "yo", "so", {"role": "assistant", "content": content})
    found = witness_of("dataset::content_survives", row)
    assert (found.expected, found.found) == ("</think>", "reasoning that does not end")
    assert found.note == "message 3"
    assert findings_of(row) == {"dataset::content_survives"}


@pytest.mark.parametrize(
    "texts", [("hi", "<think>hm</think>yo"), ("hi", "Write <think> first."), ("<think>hi", "yo")]
)
def test_reasoning_that_ends_and_the_mark_in_a_text(texts):
    assert findings_of(chat(*texts)) == set()
