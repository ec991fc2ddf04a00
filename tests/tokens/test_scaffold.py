from __future__ import annotations

import pytest

from pytest_longctx.tokens.scaffold import Scaffold, read_scaffold
from pytest_longctx.tokens.template import Renderer
from tests.tokens.characters import CHATML, characters

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
