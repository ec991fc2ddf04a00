"""An independent, slow reference of where a template puts generation blocks and texts.

Generation blocks are found by rendering marks around their bodies, where transformers counts characters while
it renders. Texts are found by rendering with marks inside them, one text at a time.
"""

from __future__ import annotations

import copy
import json
from datetime import datetime
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

OPEN, CLOSE = "\ue000", "\ue001"
LEFT, RIGHT = "\ue002", "\ue003"


class Marks(Extension):
    """`{% generation %}` writes marks around its body."""

    tags = {"generation"}  # noqa: RUF012 - jinja reads a plain set

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller):
        return OPEN + caller() + CLOSE


def _refuse(message):
    raise jinja2.TemplateError(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def environment() -> Any:
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Marks, loopcontrols]
    )
    env.filters["tojson"] = _tojson
    env.globals.update(
        raise_exception=_refuse, strftime_now=lambda form: datetime(2024, 7, 26).strftime(form), dict=dict
    )
    return env


def compiled(source: str) -> Any:
    return environment().from_string(source)


def spans_between(text: str, opening: str, closing: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without its marks, and what stood between them, outermost marks only."""
    plain, spans, start, depth = [], [], 0, 0
    for character in text:
        if character == opening:
            start = len(plain) if depth == 0 else start
            depth += 1
        elif character == closing:
            depth -= 1
            if depth == 0:
                spans.append((start, len(plain)))
        else:
            plain.append(character)
    return "".join(plain), spans


def _named(message: dict[str, Any]) -> dict[str, Any]:
    """A message as transformers hands it on: no nulls, and reasoning under all its names."""
    message = {key: value for key, value in message.items() if value is not None}
    reasoning = message.get("reasoning_content")
    return message if reasoning is None else {"thinking": reasoning, **message}


def render(template, messages, tools, special) -> tuple[str, list[tuple[int, int]]]:
    """Text and generation blocks."""
    text = template.render(
        messages=[_named(message) for message in messages],
        tools=tools,
        documents=None,
        add_generation_prompt=False,
        **special,
    )
    return spans_between(text, OPEN, CLOSE)


def find_text(template, messages, tools, special, index, key) -> tuple[int, int] | None:
    """Where the text under `key` of one message stands, or None where marks change what is rendered."""
    content = messages[index][key]
    body = content.strip()
    if not body:
        return None
    lead = content[: len(content) - len(content.lstrip())]
    marked = copy.deepcopy(messages)
    marked[index][key] = f"{lead}{LEFT}{body}{RIGHT}{content[len(lead) + len(body) :]}"
    text, _ = render(template, messages, tools, special)
    plain, spans = spans_between(render(template, marked, tools, special)[0], LEFT, RIGHT)
    return spans[0] if plain == text and len(spans) == 1 else None
