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
