"""Chat templates are programs: none may run for ever, grow without end, or leave the sandbox."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref

import pytest

from pytest_longctx.errors import TokenizerError
from pytest_longctx.evidence import BrokenLinkError, Evidence
from pytest_longctx.tokens import deadline, template
from pytest_longctx.tokens.deadline import LimitError, Watch, in_time

LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
MILLION = "{% set a = 'a' * 1000000 %}"

# Each would make a text, list or number far beyond any memory in one step of native code.
HUGE = {
    "repeat": "{{ 'x' * 10**12 }}",
    "repeat_from_the_left": "{{ 10**12 * 'x' }}",
    "repeat_list": "{{ [1] * 10**12 }}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "squares": "{% set n = namespace(x=99) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "percent_width": "{{ '%999999999999d' % 1 }}",
    "percent_star": "{{ '%*d' % (10**12, 1) }}",
    "percent_repeated": MILLION + "{{ ('%(a)s' * 100000) % {'a': a} }}",
    "format_width": "{{ '{:>999999999999}'.format(1) }}",
    "format_given_width": "{{ '{:{}}'.format(1, 10**12) }}",
    "format_map": "{{ '{a:>999999999999}'.format_map({'a': 1}) }}",
    "format_repeated": MILLION + "{{ ('{0}' * 100000).format(a) }}",
    "format_filter": "{{ '%999999999999d' | format(1) }}",
    "center": "{{ 'x'.center(10**12) }}",
    "center_filter": "{{ 'x' | center(10**12) }}",
    "center_by_name": "{{ ['x'] | map('center', 10**12) | list }}",
    "center_by_attr": "{{ ('x' | attr('center'))(10**12) }}",
    "center_by_item": "{{ 'x'['cen' ~ 'ter'](10**12) }}",
    "ljust": "{{ 'x'.ljust(10**12) }}",
    "ljust_of_markup": "{{ ('x' | escape).ljust(10**12) }}",
    "zfill": "{{ '1'.zfill(10**12) }}",
    "tabs": "{{ ('\\t' * 1000).expandtabs(10**12) }}",
    "indent": "{{ ('x\\n' * 1000) | indent(10**12) }}",
    "indent_by_text": MILLION + "{{ ('x\\n' * 1000000) | indent(a) }}",
    "replace": MILLION + "{{ a.replace('a', a) }}",
    "replace_filter": MILLION + "{{ a | replace('a', a) }}",
    "join": "{% set a = 'a' * 30000 %}{{ ([a] * 30000) | join }}",
    "join_generator": "{% set a = 'a' * 30000 %}{{ ([a] * 30000) | map('string') | join }}",
    "join_method": "{% set a = 'a' * 30000 %}{{ a.join(a) }}",
    "translate": MILLION + "{{ a.translate({97: a}) }}",
    "batch": "{{ [1] | batch(10**12, 'x') | list }}",
    "slice": "{{ [1] | slice(10**12) | list }}",
    "round": "{{ 1.5 | round(10**12, 'ceil') }}",
    "tojson": "{{ [[1]] | tojson(indent=10**12) }}",
    "wordwrap": MILLION + "{{ a | wordwrap(1, wrapstring=a) }}",
    "lipsum": "{{ lipsum(n=10**12) }}",
}

# Each runs on, or grows, step by step.
ENDLESS = {
    "loop": LOOP,
    "loop_in_a_block": "{% generation %}" + LOOP + "{% endgeneration %}",
    "loop_in_a_macro": "{% macro m() %}" + LOOP + "{% endmacro %}{{ m() }}",
}
GROWING = {
    "output": "{% for a in range(99999) %}{{ 'x' * 1000000 }}{% endfor %}",
    "doubling": "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "doubling_block": "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set b %}{{ n.x }}{{ n.x }}"
    "{% endset %}{% set n.x = b %}{% endfor %}",
    "growing_list": "{% set n = namespace(x=[]) %}{% for i in range(99999) %}"
    "{% set n.x = n.x + ['x' * 10000000 ~ i] %}{% endfor %}",
}

ESCAPES = {
    "class": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals": "{{ cycler.__init__.__globals__ }}",
    "attr_filter": "{{ ('' | attr('__class__')).__mro__ }}",
    "item": "{{ ''['__cl' ~ 'ass__'].__mro__ }}",
    "format": "{{ '{0.__class__.__mro__}'.format(1) }}",
    "format_map": "{{ '{a.__class__.__mro__}'.format_map({'a': 1}) }}",
    "change_messages": "{{ messages.append(1) }}",
    "namespace": "{% set n = namespace(__class__=1) %}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
}


def told(contract, text):
    """What the pass over the rows says of a template: the rejected row, or why there is no pass."""
    evidence = Evidence(contract(text + "{% generation %}x{% endgeneration %}"))
    with contextlib.suppress(BrokenLinkError):
        assert len(evidence.measured.ledger) == 0, "the row became a sample"
        return evidence.measured.problems[0].message
    cause = next(iter(evidence.failures.values())).cause
    assert isinstance(cause, TokenizerError), repr(cause)
    return str(cause)


@pytest.mark.parametrize("name", HUGE)
def test_no_step_makes_something_huge(contract, bounded, name):
    with bounded:
        message = told(contract, HUGE[name])
    assert "one step would make" in message


@pytest.mark.parametrize("name", ENDLESS)
def test_what_does_not_end_is_stopped(contract, bounded, monkeypatch, name):
    monkeypatch.setattr(deadline, "RENDER_SECONDS", 0.3)
    monkeypatch.setattr(deadline, "RENDER_BYTES", 1 << 50)
    with bounded:
        message = told(contract, ENDLESS[name])
    assert message.startswith("tokenizer.chat_template: hostile.jinja had not ended after 0.3 seconds")


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_is_stopped(contract, bounded, monkeypatch, name):
    monkeypatch.setattr(deadline, "RENDER_SECONDS", 60.0)
    monkeypatch.setattr(deadline, "RENDER_BYTES", 100 << 20)
    with bounded:
        message = told(contract, GROWING[name])
    assert message.startswith("tokenizer.chat_template: hostile.jinja needed more than 100 MiB")


def test_what_a_stopped_render_had_made_is_let_go(monkeypatch):
    """Even while its error is kept, as evidence keeps it."""
    monkeypatch.setattr(deadline, "RENDER_SECONDS", 0.1)
    made = []

    class Huge:
        """Stands for a text of a GiB."""

    def render():
        huge = Huge()
        made.append(weakref.ref(huge))
        while huge:
            pass

    with pytest.raises(LimitError) as kept, Watch():
        render()
    assert made[0]() is None
    assert "had not ended" in str(kept.value)


def test_memory_is_bounded_as_well(contract, bounded, monkeypatch):
    monkeypatch.setattr(deadline, "RENDER_BYTES", 50 << 20)
    with bounded:
        message = told(contract, GROWING["growing_list"])
    assert "hostile.jinja needed more than 50 MiB for one conversation" in message


def test_a_text_beyond_the_limit(contract, monkeypatch):
    monkeypatch.setattr(template, "MAX_TEXT", 1000)
    message = told(contract, "{{ 'x' * 1001 }}")
    assert "hostile.jinja made a text of more than 1,000 characters of one conversation" in message


@pytest.mark.parametrize("name", ESCAPES)
def test_the_sandbox_holds(contract, bounded, name):
    with bounded:
        message = told(contract, ESCAPES[name])
    assert any(
        word in message for word in ("Security", "unsafe", "loader", "Recursion", "underscore", "refuses")
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "recursion"),
        ("{% if a %}" * 2000 + "{% endif %}" * 2000, "hostile.jinja"),
        ("x" * (1 << 20) + "x", "larger than 1,048,576 bytes"),
    ],
    ids=["parentheses", "nested_blocks", "a_large_file"],
)
def test_templates_that_cannot_be_compiled(contract, bounded, text, words):
    with bounded, pytest.raises(BrokenLinkError) as caught:
        _ = Evidence(contract(text)).tokenizer
    assert isinstance(caught.value.cause, TokenizerError)
    assert words in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "loop"])
def test_a_template_that_is_no_file(contract, tmp_path, kind):
    loaded = contract("x")
    path = tmp_path / "hostile.jinja"
    path.unlink()
    {
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "folder": path.mkdir,
        "loop": lambda: path.symlink_to(path),
    }[kind]()
    with pytest.raises(BrokenLinkError, match=r"tokenizer.chat_template: hostile.jinja cannot be read"):
        _ = Evidence(loaded).tokenizer


def test_ordinary_templates_render_as_transformers_does(examples):
    from transformers.utils.chat_template_utils import render_jinja_template

    from pytest_longctx.tokens.sandbox import bounded_renderer

    text = (
        examples / "chatml.jinja"
    ).read_text() + "{{ '%05.1f|%s' % (3, 'ä') }}{{ 'ab'.replace('a', 'b') }}"
    call = {"type": "function", "function": {"name": "f", "arguments": {"city": "Rome"}}}
    chat = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    given = {"conversations": [chat], "chat_template": text, "return_assistant_tokens_mask": True}
    assert bounded_renderer()(**given, tools=[call]) == render_jinja_template(**given, tools=[call])


def for_ever():
    while True:
        with contextlib.suppress(Exception):
            sum(range(1000))


class TestWatch:
    def test_the_thread_ends_when_nothing_runs(self):
        with Watch():
            pass
        for thread in threading.enumerate():
            if thread.name == "longctx-watch":
                thread.join(10)
                assert not thread.is_alive()

    def test_a_block_after_a_stopped_one_is_not_stopped(self, monkeypatch):
        monkeypatch.setattr(deadline, "RENDER_SECONDS", 0.2)
        watch = Watch()
        with pytest.raises(LimitError, match="had not ended"), watch:
            for_ever()
        monkeypatch.setattr(deadline, "RENDER_SECONDS", 60.0)
        with watch:
            assert sum(range(200_000)) == 19_999_900_000

    def test_errors_pass_through(self):
        with pytest.raises(KeyError), Watch():
            raise KeyError

    def test_no_filter_can_swallow_it(self, monkeypatch):
        monkeypatch.setattr(deadline, "RENDER_SECONDS", 0.2)
        with pytest.raises(LimitError), Watch():
            for_ever()


class TestNativeCode:
    def test_the_result_comes_back(self):
        assert in_time(lambda: 5, 0) == 5

    def test_errors_come_back(self):
        with pytest.raises(KeyError):
            in_time(lambda: {}["a"], 0)

    def test_a_panic_is_an_error_that_users_can_mend(self):
        class PanicError(BaseException):
            pass

        def panic():
            raise PanicError("retry-limit-in-match over")

        with pytest.raises(TokenizerError, match="the tokenizer failed: retry-limit-in-match over"):
            in_time(panic, 0)

    def test_what_does_not_end_is_left_behind(self, monkeypatch):
        monkeypatch.setattr(deadline, "NATIVE_SECONDS", 0.05)
        release = threading.Event()
        with pytest.raises(LimitError, match=r"the tokenizer had not ended after 0.05 seconds"):
            in_time(release.wait, 0)
        release.set()
