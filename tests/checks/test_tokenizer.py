from __future__ import annotations

import pytest

from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence
from tests.mutants.labels.contracts import CHATML, Case, rows

DATED = CHATML.replace(
    "{%- for message in messages",
    "{{- (date_string or strftime_now('%d %B %Y')) + '\\n' -}}\n{%- for message in messages",
)


def test_a_template_that_reads_the_clock_says_where_its_ids_part(tmp_path):
    verdict = Case(tmp_path, DATED).write(rows()).verdict("tokenizer::deterministic_template")
    assert verdict.headline == "deterministic_template: 3 × row whose ids change with the date"
    assert verdict.measured == 3
    assert [witness["id"] for witness in verdict.witnesses] == ["several", "one", "tools"]
    # "03 February" and "22 November": the first digit differs, so it is the first token of the row.
    assert verdict.witnesses[1]["position"] == 0
    assert "tokenizer.template_kwargs" in verdict.advice


def test_a_date_that_the_contract_pins_is_the_same_every_day(tmp_path):
    case = Case(tmp_path, DATED).write(rows())
    case.contract["tokenizer"]["template_kwargs"] = {"date_string": "1 May 2025"}
    verdict = case.verdict("tokenizer::deterministic_template")
    assert verdict.outcome == "passed"
    assert verdict.headline == "deterministic_template holds on 3 rows that were rendered again"


def test_a_template_that_draws_lots_is_not_deterministic(tmp_path):
    template = "{{- range(99999) | random -}}" + CHATML
    assert (
        Case(tmp_path, template).write(rows()).verdict("tokenizer::deterministic_template").outcome
        == "failed"
    )


def test_the_clock_is_put_back(tmp_path):
    from transformers.utils import chat_template_utils

    own = chat_template_utils.datetime
    Case(tmp_path, DATED).write(rows()).report()
    assert chat_template_utils.datetime is own


def test_prefixes_are_not_judged_where_the_template_does_not_claim_them(tmp_path):
    template = CHATML.replace(
        "{{- '<|im_end|>' -}}\n        {%- endgen",
        "{{- '<|im_end|>' if loop.last else '' -}}\n        {%- endgen",
    )
    verdict = Case(tmp_path, template).write(rows()).verdict("tokenizer::prefix_render")
    assert verdict.outcome == "skipped"
    assert "can be judged" in verdict.headline


def test_only_conversations_of_several_turns_are_rendered_in_parts(tmp_path):
    verdict = Case(tmp_path).write(rows()).verdict("tokenizer::prefix_render")
    assert verdict.headline == "prefix_render holds on 2 rows that were rendered again"


def test_the_fingerprint_that_is_found_can_be_pinned(tmp_path):
    case = Case(tmp_path).write(rows())
    case.contract["tokenizer"]["fingerprint"] = f"sha256:{'0' * 64}"
    verdict = case.verdict("tokenizer::pinned")
    found = verdict.context[1].split()[-1]
    case.contract["tokenizer"]["fingerprint"] = found
    assert case.verdict("tokenizer::pinned").outcome == "passed"
    case.contract["tokenizer"]["template_kwargs"] = {"date_string": "1 May 2025"}
    assert case.verdict("tokenizer::pinned").outcome == "failed"


@pytest.mark.parametrize("part", ["tokenizer", "supervision"])
def test_lengths_make_no_checks_of_tokens(tmp_path, part):
    case = Case(tmp_path, supervision={"turns": "all"})
    del case.contract["tokenizer"]
    case.contract["dataset"] = {"path": "*.jsonl", "shape": "lengths"}
    case.contract["lengths"] = {"short_threshold": 5, "long_threshold": 9, "limits": {"max_tokens": 12}}
    case.write([{"prompt_tokens": 4, "supervised_tokens": 8}])
    results = case.report().results
    assert {result.check.id: result.outcome for result in results} == {
        "dataset::rows": "passed",
        "lengths::max_tokens": "passed",
    }
    assert part not in {result.check.section for result in results}


def test_a_second_look_covers_every_row_only_where_it_is_asked_to(tmp_path):
    many = [{**rows()[1], "uid": f"row{number}"} for number in range(200)]
    case = Case(tmp_path).write(many)
    assert looked_at(case) == 48
    case.contract["dataset"]["exhaustive"] = True
    assert looked_at(case) == 200


def looked_at(case):
    case.report()
    return Evidence(load_contract(case.folder / "contract.yaml")).two_clocks.rows
