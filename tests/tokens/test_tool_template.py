"""A tokenizer of two templates: rows with tools have the ids that transformers gives them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_longctx.cache.key import settings_key
from pytest_longctx.contract import SupervisionSection, load_contract
from pytest_longctx.evidence import Evidence
from tests.mutants.labels.contracts import CHATML, Case, backend, rows
from tests.mutants.labels.templates import END
from tests.tokens.characters import characters

TOOL_USE = CHATML.replace("# Tools", "# These are the tools")
# Every turn ends otherwise than in the template of rows without tools.
OTHER_END = TOOL_USE.replace("<|im_end|>", "<|endoftext|>")


def in_files(folder, templates):
    """`chat_template.jinja` and `additional_chat_templates`."""
    (folder / "chat_template.jinja").write_text(templates["default"], encoding="utf-8")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text(templates["tool_use"], "utf-8")


def in_config(folder, templates):
    """A list in `tokenizer_config.json`."""
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text("utf-8"))
    config["chat_template"] = [{"name": name, "template": text} for name, text in templates.items()]
    file.write_text(json.dumps(config), encoding="utf-8")


@pytest.fixture
def case(tmp_path):
    """Sound rows, one of them with tools, and a tokenizer with two templates."""

    def make(tool_use=TOOL_USE, write=in_files, default=CHATML):
        case = Case(tmp_path, tokenizer=backend())
        write(tmp_path / "tokenizer", {"default": default, "tool_use": tool_use})
        del case.contract["tokenizer"]["chat_template"]
        return case.write(rows())

    return make


def evidence(case):
    case.report()
    return Evidence(load_contract(case.folder / "contract.yaml"))


def fingerprint(case):
    return evidence(case).tokenizer.fingerprint


@pytest.mark.parametrize("write", [in_files, in_config])
def test_ids_are_those_of_apply_chat_template(case, write):
    made = case(write=write)
    values = [*rows(), {**rows()[1], "uid": "no tools", "tools": []}]
    found = evidence(made.write(values))
    samples = found.measured.samples
    for place, row in enumerate(values):
        ids = found.tokenizer.backend.apply_chat_template(
            row["messages"], tools=row.get("tools"), return_dict=True
        )["input_ids"]
        assert samples[place].ids.tolist() == ids
    assert "These are the tools" in found.tokenizer.backend.decode(samples[2].ids)


def test_checks_read_each_template_for_itself(case):
    assert case(OTHER_END).outcomes() == {}


def test_a_tool_template_that_omits_the_end_of_an_answer(case):
    end = END.replace("<|im_end|>", "<|endoftext|>")
    assert end in OTHER_END
    made = case(OTHER_END.replace(end, "        {%- endgeneration -%}\n        {{- '\\n' -}}"))
    assert made.outcomes() == {"supervision::turn_end": "failed"}
    assert [row["id"] for row in made.verdict("supervision::turn_end").witnesses] == ["tools"]


def test_a_tool_template_that_rewrites_earlier_turns_is_not_judged_by_prefixes(case):
    ending = "{{- '<|im_end|>' if loop.last else '' -}}\n        {%- endgen"
    made = case(TOOL_USE.replace("{{- '<|im_end|>' -}}\n        {%- endgen", ending))
    verdict = made.verdict("tokenizer::prefix_render")
    assert verdict.headline == "prefix_render holds on 1 rows that were rendered again"


def test_a_tool_template_without_generation_is_needed_by_rows_with_tools_alone(case):
    made = case(TOOL_USE.replace("{%- generation -%}", "").replace("{%- endgeneration -%}", ""))
    results = {result.check.id: result for result in made.report().results}
    assert results["supervision::present"].outcome == "error"
    assert "chat template tool_use has no {% generation %} block" in str(results["supervision::present"])
    (made.folder / "rows.jsonl").unlink()
    assert made.write(rows()[:2]).outcomes() == {}


def test_a_prompt_and_a_completion_as_texts_need_no_template_for_their_tools(case):
    made = case(TOOL_USE.replace("{%- generation -%}", "").replace("{%- endgeneration -%}", ""))
    # No template is rendered for them, so that what stands in the definitions reaches no model.
    tools = [{"type": "function", "function": {"name": "f", "description": "Ends with <|im_end|>."}}]
    made.contract["supervision"] = {"turns": "completion"}
    made.write([{"uid": "text", "prompt": "2 + 2 = ", "completion": "4", "tools": tools}])
    assert made.outcomes() == {}


def test_prefixes_that_no_template_keeps_are_not_judged(case):
    ending = "{{- '<|im_end|>' if loop.last else '' -}}\n        {%- endgen"
    made = case(TOOL_USE.replace("{{- '<|im_end|>' -}}\n        {%- endgen", ending))
    (made.folder / "rows.jsonl").unlink()
    verdict = made.write(rows()[2:3]).verdict("tokenizer::prefix_render")
    assert verdict.outcome == "skipped"
    assert "renders an earlier turn otherwise" in verdict.headline


def test_prefixes_that_the_template_of_rows_with_tools_keeps_are_judged(case):
    ending = "{{- '<|im_end|>' if loop.last else '' -}}\n        {%- endgen"
    made = case(default=CHATML.replace("{{- '<|im_end|>' -}}\n        {%- endgen", ending))
    (made.folder / "rows.jsonl").unlink()
    verdict = made.write(rows()[2:3]).verdict("tokenizer::prefix_render")
    assert verdict.headline == "prefix_render holds on 1 rows that were rendered again"


def test_a_template_that_the_contract_names_renders_all_rows(case):
    made = case()
    made.contract["tokenizer"]["chat_template"] = "chat.jinja"
    found = evidence(made)
    assert (found.tokenizer.with_tools, found.tokenizer.chat_template) == (None, CHATML)
    assert "These are the tools" not in found.tokenizer.backend.decode(found.measured.samples[2].ids)


def test_both_are_in_the_fingerprint(case):
    made = case()
    before = fingerprint(made)
    file = made.folder / "tokenizer" / "additional_chat_templates" / "tool_use.jinja"
    file.write_text(OTHER_END, encoding="utf-8")
    assert fingerprint(made) != before


def test_both_are_what_a_trainer_gets(case):
    made = evidence(case()).tokenizer
    assert made.chat_template == {"default": CHATML, "tool_use": TOOL_USE}


def test_a_tool_template_that_does_not_compile_is_named(case):
    verdict = case("{{ broken").report().results[0]
    assert verdict.outcome == "error"
    assert "the tokenizer's own chat template tool_use, line 1" in str(verdict)


def test_a_tool_template_that_reads_the_clock_leaves_nothing_in_the_cache():
    plain, terms = characters(), SupervisionSection()
    assert settings_key(replace(plain, with_tools=characters("steady")), terms) is not None
    assert settings_key(replace(plain, with_tools=characters("{{ strftime_now() }}")), terms) is None
