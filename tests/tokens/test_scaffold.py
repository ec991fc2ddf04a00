from __future__ import annotations

import pytest

from pytest_longctx.tokens.scaffold import Scaffold, read_scaffold
from pytest_longctx.tokens.template import Renderer
from tests.tokens.characters import CHATML, characters, chat, findings_of, witness_of

LOOP = "{% for m in messages %}BODY{% endfor %}{% if add_generation_prompt %}PROMPT{% endif %}"


def scaffold(template, **keys):
    return read_scaffold(Renderer(characters(template, **keys)))


def loop(body, prompt=""):
    return LOOP.replace("BODY", body).replace("PROMPT", prompt)


def test_chatml():
    found = scaffold(CHATML)
    assert found.terminators == ("<|im_end|>",)
    assert found.header == "<|im_start|>assistant"
    assert found.leads["user"] == ("|im_start|>user\n",)
    assert found.leads["assistant"] == ("tart|>assistant\n",)
    assert found.leads["system"] == ("m_start|>system\n",)
    assert found.trained_header == ""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{{ m.role }}:{{ m.content }}</s>", ("</s>",)),
        ("{{ m.role }}:{{ m.content }}\n\n", ()),
        ("{{ m.role }}: {{ m.content }}###", ("###",)),
        # Only what another turn follows is ended.
        ("{{ m.role }}:{{ m.content }}{{ '' if loop.last else '</s>' }}", ("</s>",)),
        # The last turn is ended otherwise than the earlier ones.
        (
            "<|im_start|>{{ m.role }}:{{ m.content }}{{ '</s>' if loop.last else '<|im_end|>' }}",
            ("</s>", "<|im_end|>"),
        ),
        # One token ends the answer and opens the question: the header is all there is between them.
        ("<s>{{ m.content }}", ()),
    ],
)
def test_the_end_of_a_turn_is_read_off(body, expected):
    assert scaffold(loop(body)).terminators == expected


@pytest.mark.parametrize(
    ("end", "last", "note"),
    [
        ("<|im_end|>", "<|im_end|>", ""),
        ("###", "###", "###"),  # three tokens
        ("#", "#", ""),  # one, as a model may be trained to stop at
        ("#</s>", "#</s>", ""),
        ("###", "</s>", "###"),  # the first answer teaches another end than the last
        ("</s>", "###", "###"),
        ("</s>", "; ; ", "; ;"),
        ("</s>", " ; ", ""),  # white space beside it
    ],
)
def test_an_end_of_turn_is_a_token(end, last, note):
    body = f"<|im_start|>{{{{ m.role }}}}:{{{{ m.content }}}}{{{{ '{last}' if loop.last else '{end}' }}}}"
    block = body.replace("{{ m.content", "{% generation %}{{ m.content") + "{% endgeneration %}"
    template = loop(f"{{% if m.role == 'user' %}}{body}{{% else %}}{block}{{% endif %}}")
    row = chat("hi", "yo", "hi", "yo")
    assert findings_of(row, characters(template)) == ({"supervision::turn_end"} if note else set())
    if note:
        found = witness_of("supervision::turn_end", row, characters(template))
        turn = len("xuser:hi#xassistant:yo")
        first = turn + 2 * len("##") if end == "###" else 2 * turn + len("#") + len(last) - 1
        assert (found.expected, found.found) == ("a token", "ordinary text")
        assert (found.position, found.note) == (first, note)


@pytest.mark.parametrize(
    ("words", "answer", "merged"),
    [(["; "], "{}", False), (["};"], "yo", False), (["};"], "{}", True), (["};"], "{} ", False)],
)
def test_an_end_of_turn_is_a_token_where_it_stands(words, answer, merged):
    """Behind a brace it may be part of another one; white space in it is none of its text."""
    template = loop(
        "<|im_start|>{{ m.role }}:{% if m.role == 'user' %}{{ m.content }}; {% else %}"
        "{% generation %}{{ m.content }}; {% endgeneration %}{% endif %}"
    )
    expected = {"supervision::turn_end"} if merged else set()
    assert findings_of(chat("hi", answer), characters(template, words=words)) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (loop("<s>{{ m.content }}"), True),
        (loop("{{ '<s>' if m.role == 'user' }}{{ m.content }}"), True),
        (loop("{{ '<s>' if m.role == 'assistant' }}{{ m.content }}"), True),
        # Twice, and at the end, but between no turns.
        ("<s><s>" + loop("{{ m.role }}:{{ m.content }}</s>"), False),
        (loop("{{ m.role }}:{{ m.content }}</s>") + "<s>", False),
        (CHATML, False),
    ],
)
def test_bos_between_turns(template, expected):
    assert scaffold(template).bos_in_turns is expected


def test_templates_of_content_parts():
    body = "<|im_start|>{{ m.role }}:{% for p in m.content %}{{ p.text }}{% endfor %}<|im_end|>"
    assert scaffold(loop(body)).terminators == ("<|im_end|>",)


def test_a_template_that_refuses_the_probe_stays_unknown():
    assert scaffold("{{ raise_exception('no') }}") == Scaffold()
    assert read_scaffold(Renderer(characters(None))) == Scaffold()


def test_a_header_inside_the_generation_block():
    trained = loop(
        "{% if m.role == 'user' %}U:{{ m.content }};{% else %}"
        "{% generation %}A says:{{ m.content }};{% endgeneration %}"
        "{% endif %}",
        "A says:",
    )
    assert scaffold(trained).trained_header == "A says:"
    special = trained.replace("A says:", "<|im_start|>")
    assert scaffold(special).trained_header == ""  # a special token alone may be generated


def calls(inside, outside=""):
    """A template where answers end with <|im_end|>, and calls of tools with other texts."""
    return (
        loop(
            "<|im_start|>{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
            "{% if m.tool_calls %}[f {{ m.tool_calls[0].function.arguments | tojson }}]INSIDE"
            "{% else %}<|im_end|>{% endif %}{% endgeneration %}{% if m.tool_calls %}OUTSIDE{% endif %}"
            "{% else %}{{ m.content }}<|im_end|>{% endif %}"
        )
        .replace("INSIDE", inside)
        .replace("OUTSIDE", outside)
    )


CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
}
RESULT = {"role": "tool", "content": "ok"}


def test_the_end_of_a_turn_that_calls_tools():
    found = scaffold(calls("</s>"))
    assert (found.terminators, found.call_terminator) == (("<|im_end|>",), "</s>")
    assert findings_of(chat("hi", CALL, RESULT, "yo"), characters(calls("</s>"))) == set()
    assert findings_of(chat("hi", CALL), characters(calls("</s>"))) == set()


def test_the_end_of_a_call_does_not_end_an_answer():
    template = calls("</s>").replace(
        "{% else %}<|im_end|>", "{% else %}{{ '</s>' if m.content == 'yo' else '<|im_end|>' }}"
    )
    witness = witness_of("supervision::turn_end", chat("hi", CALL, RESULT, "yo"), characters(template))
    assert (witness.expected, witness.found) == ("one of <|im_end|>", "no end of turn")


@pytest.mark.parametrize(
    ("template", "seen"),
    [
        # ] closes the call; it is no special token, so the turn is not over.
        (calls(""), "no end of turn"),
        (calls("", "</s>"), "no end of turn"),
        (calls("", "<|im_end|>"), "rendered, but outside the supervised span"),
        # Turns that call tools end as answers do, only not in the block.
        (calls("</s>", "<|im_end|>"), "rendered, but outside the supervised span"),
    ],
)
def test_a_turn_that_calls_tools_whose_end_is_not_trained(template, seen):
    assert scaffold(template).call_terminator == ""
    witness = witness_of("supervision::turn_end", chat("hi", CALL, RESULT, "yo"), characters(template))
    assert witness.found == seen


def test_a_template_that_refuses_calls_has_no_end_of_them():
    refusing = calls("{{ raise_exception('no') }}</s>")
    assert scaffold(refusing).call_terminator == ""
    assert scaffold(refusing).terminators == ("<|im_end|>",)
