from __future__ import annotations

import pytest

from pytest_longctx.tokens.locate import _parts, locate

LEADS = {"user": ("U:",), "assistant": ("A:",), "reasoning": ("<think>",)}


def found(text, messages, blocks=(), tools=None, leads=LEADS):
    """Pieces as (message, role, text), and what was lost."""
    located = locate(text, blocks, messages, tools, leads)
    return [(p.message, p.role, text[p.start : p.end]) for p in located.pieces], located.lost


def says(role, content, **keys):
    return {"role": role, "content": content, **keys}


def test_texts_are_found_in_order():
    pieces, lost = found(
        "U:hi;A:yo;U:hi;A:no;",
        [says("user", "hi"), says("assistant", "yo"), says("user", "hi"), says("assistant", "no")],
    )
    assert pieces == [(0, "user", "hi"), (1, "assistant", "yo"), (2, "user", "hi"), (3, "assistant", "no")]
    assert lost == []


def test_a_short_text_is_not_found_in_a_header():
    located = locate(
        "User:s;Answers:s;",
        [(7, 17)],
        [says("user", "s"), says("assistant", "s")],
        None,
        {"user": ("User:",), "assistant": ("Answers:",)},
    )
    assert [(piece.start, piece.end) for piece in located.pieces] == [(5, 6), (15, 16)]


def test_answers_are_looked_for_in_their_own_block():
    text = "U:yes;A:no;U:ok;A:yes;"
    messages = [says("user", "yes"), says("assistant", "no"), says("user", "ok"), says("assistant", "yes")]
    assert found(text, messages, [(8, 11), (18, 22)])[0][3] == (3, "assistant", "yes")
    # "yes" of the first answer is in no block of its own: it is lost, not taken from the second one.
    messages[1] = says("assistant", "yes")
    pieces, lost = found(text, messages, [(8, 11), (18, 22)])
    assert [piece[0] for piece in pieces] == [0, 2, 3]
    assert lost == [(1, 3, 3)]


def test_blocks_that_touch_are_one_answer():
    text = "U:hi;A:yo<end>"
    assert found(text, [says("user", "hi"), says("assistant", "yo")], [(7, 9), (9, 14)])[1] == []


def test_an_answer_outside_the_blocks_is_found_behind_its_header():
    text = "U:hi;A:yo;U:so;A:no;"
    messages = [says("user", "hi"), says("assistant", "yo"), says("user", "so"), says("assistant", "no")]
    pieces, lost = found(text, messages, [(17, 20)])
    assert [piece[0] for piece in pieces] == [0, 1, 2, 3]
    assert lost == []


def test_what_a_template_strips_is_not_lost():
    pieces, lost = found("U:hi;A:yo;", [says("user", " hi\n"), says("assistant", "\n yo ")])
    assert [piece[2] for piece in pieces] == ["hi", "yo"]
    assert lost == []


def test_a_system_prompt_behind_the_answers_does_not_hide_them():
    text = "U:hi;A:yo;S:kind;U:so;A:no;"
    messages = [
        says("system", "kind"),
        says("user", "hi"),
        says("assistant", "yo"),
        says("user", "so"),
        says("assistant", "no"),
    ]
    pieces, lost = found(text, messages, [(7, 10), (24, 27)], leads={**LEADS, "system": ("S:",)})
    assert (0, "system", "kind") in pieces
    assert lost == []
    assert [piece[2] for piece in pieces if piece[1] == "assistant"] == ["yo", "no"]


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ('A:{"city": "Rome", "n": 2}', []),
        ("A:f<city>Rome</city><n>2</n>", []),  # keys and values apart
        ("A:f(city='Rome')", [(0, 2, 11)]),  # n and 2 of f, city, Rome, n, 2
        ("A:nothing", [(0, 1 + 4 + 4 + 1, 11)]),  # but the n is found in "nothing"
    ],
)
def test_arguments_are_found_as_json_or_apart(text, lost):
    call = {"function": {"name": "f", "arguments": {"city": "Rome", "n": 2}}}
    if text.startswith("A:{"):
        text = text.replace("A:", "A:f")
    assert found(text, [says("assistant", "", tool_calls=[call])])[1] == lost


def test_reasoning_is_found_apart_from_the_answer():
    text = "U:2+2;A:<think>t</think>4;"
    pieces, lost = found(
        text, [says("user", "2+2"), says("assistant", "4", reasoning_content="t")], [(8, 26)]
    )
    assert [(piece[2]) for piece in pieces] == ["2+2", "t", "4"]
    assert lost == []
    assert (
        text.index("t</think>")
        == locate(text, [(8, 26)], [says("assistant", "4", reasoning_content="t")], None, LEADS)
        .pieces[0]
        .start
    )


def test_tools_are_prompts():
    text = 'T:{"name": "f"};U:hi;A:yo;'
    pieces, _ = found(text, [says("user", "hi"), says("assistant", "yo")], tools=[{"name": "f"}])
    assert pieces[0] == (-1, "tools", '{"name": "f"}')


def test_unknown_roles_are_answers_that_may_be_lost():
    assert found("U:hi;", [says("user", "hi"), says("bot", "hello there")])[1] == [(1, 10, 10)]
    assert found("", [says("human", "hi")])[1] == [(0, 2, 2)]


def test_a_prompt_of_which_nothing_is_rendered_is_lost():
    messages = [says("system", "Be kind."), says("user", "hi there"), says("assistant", "yo")]
    assert found("U:;A:yo;", messages)[1] == [(0, 7, 7)]  # the first will do
    assert found("S:Be kind.;U:;A:yo;", messages)[1] == [(1, 7, 7)]
    assert found("S:Be kind.;U:hi there;A:yo;", messages)[1] == []
    parts = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "hi there"}]}
    assert found("U:;A:yo;", [parts, says("assistant", "yo")])[1] == [(0, 7, 7)]
    assert found("U:;A:yo;", [says("user", " \n"), says("assistant", "yo")])[1] == []


@pytest.mark.parametrize("text", ["U:hi\n there;A:yo;", "A:yo;U:hi there;", "U:h i t h e r e;A:yo;"])
def test_a_prompt_that_stands_anywhere_is_not_lost(text):
    at = text.index("yo")
    assert found(text, [says("user", "hi there"), says("assistant", "yo")], [(at, at + 2)])[1] == []


def test_a_prompt_of_which_a_part_is_rendered_is_not_lost():
    parts = {"role": "user", "content": ["hi", "there"]}
    assert found("U:hi;A:yo;", [parts, says("assistant", "yo")])[1] == []


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("S:You are a careful assistant. Reasoning strength: high.;A:yo;", []),
        ("S:careful assistant. Reasoning effort: high.;A:yo;", []),  # four of five parts
        ("S:Reasoning effort: high.;A:yo;", [(0, 45, 45)]),  # two
        ("S:You are a careful assistant. Be short.;A:yo;", [(0, 45, 45)]),
    ],
)
def test_a_prompt_of_which_a_word_is_stripped_or_replaced_is_not_lost(text, lost):
    prompt = says("system", "You are a careful assistant.\nReasoning effort: high.")
    at = text.index("yo")
    assert found(text, [prompt, says("assistant", "yo")], [(at, at + 2)])[1] == lost


def test_a_prompt_of_which_half_is_rendered_is_not_lost():
    """`Name a c`, `olour. /no_think` without white space: of two parts one stands there."""
    text = "U:Name a colour.;A:yo;"
    at = text.index("yo")
    messages = [says("user", "Name a colour. /no_think"), says("assistant", "yo")]
    assert found(text, messages, [(at, at + 2)])[1] == []


def test_parts_of_a_prompt():
    assert _parts("") == []
    assert _parts("abcdefghijklmno") == ["abcdefghijklmno"]
    assert _parts("abcdefghijklmnopq") == ["abcdefgh", "ijklmnopq"]
    assert [len(part) for part in _parts("a" * 57)] == [8, 8, 8, 8, 8, 8, 9]
    assert [len(part) for part in _parts("a" * 80_000)] == [10_000] * 8


def test_a_rendering_is_squeezed_once(monkeypatch):
    """Of thousands of tool results that a template indents anew, each is looked for in the same text."""
    looked = []
    monkeypatch.setattr(
        "pytest_longctx.tokens.locate._stands_in", lambda text, _: looked.append(text) or True
    )
    rendered = "T:a\n  b;" * 50 + "A:yo;"
    messages = [says("tool", "a\nb")] * 50 + [says("assistant", "yo")]
    at = rendered.index("yo")
    assert found(rendered, messages, [(at, at + 2)])[1] == []
    assert len(looked) == 50
    assert len({id(text) for text in looked}) == 1
