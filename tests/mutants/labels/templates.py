"""Chat templates that are wrong in one known way each: name → template, rows, checks that must fail."""

from __future__ import annotations

from tests.mutants.labels.contracts import CHATML, TOOL, answer, completions, rows, user


def changed(old, new, times=None):
    """The ChatML example with one part changed."""
    assert old in CHATML, old
    if times is not None:
        assert CHATML.count(old) == times
    return CHATML.replace(old, new)


def with_reasoning():
    found = rows()[:2]
    found[0]["messages"][2]["reasoning_content"] = "France lies in Europe."
    found[0]["messages"][4]["reasoning_content"] = "So does Italy."
    found[1]["messages"] = [
        user("Say hello."),
        answer("<think>\nPolitely.\n</think>\n\nHello there, friend."),
    ]
    return found


def in_parts():
    found = rows()
    found[1]["messages"][1]["content"] = [{"type": "text", "text": "Hello there, friend."}]
    return found[1:2]


BODY = "{{- text(message.content) -}}\n            {%- for call"
HEADER = "{{- '<|im_start|>assistant\\n' -}}\n        {%- generation -%}"
END = "            {{- '<|im_end|>' -}}\n        {%- endgeneration -%}\n        {{- '\\n' -}}"
OTHERS = (
    "{{- '<|im_start|>' + message.role + '\\n' + text(message.content) + '<|im_end|>\\n' -}}\n    {%- else"
)
REASONED = (
    "{%- if message.reasoning_content WHEN -%}"
    "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}"
    "{%- endif -%}" + BODY
)
PARTS = "{%- for part in content -%}{{- part.text -}}{%- endfor -%}"
QUOTED = "function.arguments if function.arguments is string else function.arguments | tojson"

TEMPLATES = {
    "drops the newline behind the last message": (
        changed(
            "+ '<|im_end|>\\n' -}}\n    {%- else",
            "+ '<|im_end|>' + ('' if loop.last else '\\n') -}}\n    {%- else",
        ),
        completions()[:2],
        {"supervision::prompt_prefix"},
    ),
    "omits the end of an answer": (
        changed(END, "        {%- endgeneration -%}\n        {{- '\\n' -}}"),
        rows(),
        {"supervision::turn_end"},
    ),
    "does not supervise the end of an answer": (
        changed(END, "        {%- endgeneration -%}\n        {{- '<|im_end|>\\n' -}}"),
        rows(),
        {"supervision::turn_end"},
    ),
    "ends turns with the token of another model": (
        CHATML.replace("<|im_end|>", "<end_of_turn>"),
        rows(),
        {"supervision::turn_end"},
    ),
    "puts the header inside the generation block": (
        changed(HEADER, "{%- generation -%}\n        {{- '<|im_start|>assistant\\n' -}}"),
        rows(),
        {"supervision::roles"},
    ),
    "supervises users": (
        changed(
            OTHERS,
            "{%- generation -%}" + OTHERS.replace("\n    {%- else", "{%- endgeneration -%}\n    {%- else"),
        ),
        rows(),
        {"supervision::roles"},
    ),
    "supervises everything": (
        "{%- for m in messages -%}{%- generation -%}"
        "{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' -}}"
        "{%- endgeneration -%}{%- endfor -%}",
        rows()[:2],
        {"supervision::roles"},
    ),
    "supervises the first answer only": (
        changed(
            HEADER, HEADER.replace("{%- generation -%}", "{%- if loop.index < 4 -%}{%- generation -%}")
        ).replace(
            END,
            "            {{- '<|im_end|>' -}}\n        {%- endgeneration -%}{%- else -%}"
            "{{- text(message.content) + '<|im_end|>' -}}{%- endif -%}{{- '\\n' -}}",
        ),
        rows()[:1],
        {"supervision::turns"},
    ),
    "supervises the last answer only": (
        changed(
            HEADER, HEADER.replace("{%- generation -%}", "{%- if loop.last -%}{%- generation -%}")
        ).replace(
            END,
            "            {{- '<|im_end|>' -}}\n        {%- endgeneration -%}{%- else -%}"
            "{{- text(message.content) + '<|im_end|>' -}}{%- endif -%}{{- '\\n' -}}",
        ),
        rows()[:2],
        {"supervision::turns"},
    ),
    "adds the date": (
        changed(
            "{%- for message in messages",
            "{{- strftime_now('%d %B %Y') + '\\n' -}}\n{%- for message in messages",
        ),
        rows(),
        {"tokenizer::deterministic_template"},
    ),
    "strips reasoning from earlier turns": (
        changed(BODY, REASONED.replace("WHEN", "and loop.last")),
        with_reasoning()[:1],
        {"dataset::content_survives", "tokenizer::prefix_render"},
    ),
    "leaves reasoning out": (CHATML, with_reasoning()[:1], {"dataset::content_survives"}),
    "doubles a reasoning block": (
        changed(BODY, "{{- '<think>\\n\\n</think>\\n\\n' -}}" + BODY),
        with_reasoning()[1:],
        {"dataset::content_survives"},
    ),
    "quotes the arguments of tools": (
        changed(QUOTED, "function.arguments | tojson | tojson"),
        rows(),
        {"dataset::tool_arguments"},
    ),
    "reads only contents that are texts": (
        changed("{%- elif content -%}", "{%- elif false -%}"),
        in_parts(),
        {"dataset::content_survives", "supervision::present"},
    ),
    "leaves out what users say in parts": (
        changed("{%- elif content -%}", "{%- elif false -%}"),
        [{"uid": "parts", "messages": [user([{"type": "text", "text": "Where is Rome?"}]), answer("Far.")]}],
        {"dataset::content_survives"},
    ),
    "leaves out the system prompt": (
        changed("'<|im_start|>system\\n' + text(messages[0].content) + '<|im_end|>\\n'", "''"),
        rows()[:1],
        {"dataset::content_survives"},
    ),
    "leaves out the tools": (
        changed("{%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}", ""),
        rows()[2:],
        {"dataset::content_survives"},
    ),
    "shows the first tool only": (
        changed("{%- for tool in tools -%}", "{%- for tool in tools[:1] -%}"),
        [{**rows()[2], "tools": [{"name": "sub", "description": "Subtracts"}, TOOL]}],
        {"dataset::content_survives"},
    ),
    "writes parts as Python source": (
        changed(PARTS, "{{- content -}}"),
        in_parts(),
        {"dataset::content_survives"},
    ),
    "writes parts as JSON": (
        changed(PARTS, "{{- content | tojson -}}"),
        in_parts(),
        {"dataset::content_survives"},
    ),
    "writes each part of a user's text as source": (
        changed("{{- part.text -}}", "{{- part -}}"),
        [{"uid": "parts", "messages": [user([{"type": "text", "text": "It's me."}]), answer("Hello.")]}],
        {"dataset::content_survives"},
    ),
    "leaves answers out": (
        changed(BODY, BODY.replace("text(message.content)", "''")),
        rows()[:2],
        {"dataset::content_survives", "supervision::present"},
    ),
    "cuts long answers": (
        changed(BODY, BODY.replace("text(message.content)", "text(message.content)[:12]")),
        rows()[:2],
        {"dataset::content_survives", "supervision::present"},
    ),
    "writes the turn so far once more": (
        changed(
            "{%- if add_generation_prompt -%}",
            "{%- if messages | length > 3 -%}{{- '<|im_end|>' -}}{%- endif -%}"
            "{%- if add_generation_prompt -%}",
        ).replace(
            "{%- for message in messages -%}",
            "{%- if messages | length > 4 -%}{{- '\\n' -}}{%- endif -%}{%- for message in messages -%}",
        ),
        rows()[:1],
        {"tokenizer::prefix_render"},
    ),
}
