"""The bounded environment beside transformers' own, on what a template may take off a mapping."""

from __future__ import annotations

import pytest
from jinja2.exceptions import SecurityError, UndefinedError
from transformers.utils.chat_template_utils import _compile_jinja_template

from pytest_longctx.tokens.sandbox import compile_template

DEEP = {"x": [1, {"y": "z"}]}
MESSAGE = {"role": "user", "content": None, "items": "hidden", "deep": DEEP, "": "empty", "_p": 1}


@pytest.mark.parametrize(
    "template",
    [
        "{{ m.role }} {{ m.content }} {{ m.deep.x[1].y }} {{ m._p }}",
        "{{ m.items() | list | length }} {{ m['items'] }} {{ m.get('role') }} {{ m.keys() | join(',') }}",
        "{{ m.missing }}|{{ m.missing is defined }}|{{ m.role is defined }}|{{ m.missing or 'none' }}",
        "{{ m.deep.missing is undefined }}{{ m['missing'] is undefined }}{{ m[''] }}",
        "{% for key, value in m.items() %}{{ key }}={{ value }};{% endfor %}",
        "{% set ns = namespace(found=m.role) %}{{ ns.found }}{{ ns.other is undefined }}",
        "{% set ns = namespace(a=1, b='x', c=m, d=none) %}{{ ns.a }}{{ ns.b }}{{ ns.c.role }}{{ ns.d }}",
        "{% set ns = namespace(pad='x'.ljust, f=1.5) %}{{ ns.pad(3) }}{{ ns.f }}{{ ns.get is undefined }}",
        "{% set ns = namespace(n=0) %}{% for x in m.deep.x %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{% endfor %}",
        "{% for x in 'abc' %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}"
        "{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('o', 'e') }};{% endfor %}",
        "{% for x in 'ab' %}{{ loop.other is undefined }}{{ loop.changed(x) }}{% endfor %}",
        "{% for x in 'ab' %}{{ loop._length }}{% endfor %}",
        "{% for x in 'ab' %}{{ loop.__module__ }}{% endfor %}",
        "{% set ns = namespace(n=0) %}{{ ns.__class__ }}",
        "{{ m.missing.deeper }}",
        "{{ m.__class__ }}",
        "{{ m.pop('role') }}",
        "{{ m.update({'a': 1}) }}",
        "{{ m.missing() }}",
    ],
)
def test_a_mapping_gives_what_jinja_gives(template):
    assert outcome(compile_template(template)) == outcome(_compile_jinja_template(template))


def outcome(compiled):
    """The text, or the kind of the error and its message."""
    try:
        return compiled.render(m=dict(MESSAGE))
    except (SecurityError, UndefinedError) as error:
        return type(error), str(error)
