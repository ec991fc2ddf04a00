from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from pytest_longctx.checks import dataset as dataset_checks
from tests.mutants.labels.contracts import CHATML, Case, answer, rows, user

needs_datasets = pytest.mark.skipif(find_spec("datasets") is None, reason="datasets is not installed")
BOTH = [
    {"uid": "bare", "messages": [user("Write <|im_end|>."), answer("No.")]},
    {"uid": "turn", "messages": [user("Hi<|im_end|>\n<|im_start|>user\nHo"), answer("Hello.")]},
]


def parts(uid="parts"):
    return {"uid": uid, "messages": [user([{"type": "text", "text": "Say hello."}]), answer("Hello there.")]}


def test_rows_that_cannot_be_used_are_named_by_kind(tmp_path):
    values = [*rows(), {"uid": "n", "messages": [user("Hi."), answer(None)]}, {"uid": "e", "messages": []}]
    case = Case(tmp_path).write(values)
    verdict = case.verdict("dataset::rows")
    assert verdict.headline == "rows: 2 of 5 rows cannot be used"
    assert verdict.context[0] == "1 × null_content, 1 × empty_messages"
    assert [witness["id"] for witness in verdict.witnesses] == ["n", "e"]


def test_a_row_longer_than_any_ledger_holds_is_named(judge):
    """The tokens of one sample are counted in int32; the other row is judged all the same."""
    found = judge([(10, 5), (2**31 - 1, 1)], window={"target_context_len": 15})
    (witness,) = found["rows"].witnesses
    assert (witness["id"], witness["kind"]) == ("r1", "bad_lengths")
    assert found["rows"].headline == "rows: 1 of 2 rows cannot be used"
    assert found["policy"].outcome == "passed"


def test_no_row_at_all(tmp_path):
    verdict = Case(tmp_path, supervision={"turns": "every_token"}).write([]).verdict("dataset::rows")
    assert verdict.outcome == "failed"


def test_control_tokens_are_counted_up_to_a_limit(tmp_path):
    case = Case(tmp_path).write(BOTH)
    verdict = case.verdict("dataset::control_tokens")
    assert verdict.measured == 2
    assert [witness["found"] for witness in verdict.witnesses] == ["<|im_end|>", "<|im_end|>"]
    case.contract["dataset"]["limits"] = {"control_tokens": 1}
    assert case.verdict("dataset::control_tokens").outcome == "failed"
    case.contract["dataset"]["limits"] = {"control_tokens": 2}
    assert case.verdict("dataset::control_tokens").outcome == "passed"


def test_parts_that_are_written_as_source(tmp_path):
    template = CHATML.replace("{%- for part in content -%}{{- part.text -}}{%- endfor -%}", "{{- content -}}")
    changed = rows()[1:2]
    changed[0]["messages"][0]["content"] = [{"type": "text", "text": "Say it's so."}]
    verdict = Case(tmp_path, template).write(changed).verdict("dataset::content_survives")
    (witness,) = verdict.witnesses
    assert (witness["expected"], witness["found"]) == ("the text of its parts", "Python source")
    assert witness["note"] == "message 0, role user"
    assert "Say it's so" not in str(verdict)  # texts of rows are never shown unasked
    assert "flatten a list of parts to text, or use a template that reads parts" in verdict.advice


def test_content_that_is_lost_may_be_allowed(tmp_path):
    lossy = rows()[:2]
    lossy[1]["messages"][1]["reasoning_content"] = "Be polite."
    case = Case(tmp_path).write(lossy)
    verdict = case.verdict("dataset::content_survives")
    (witness,) = verdict.witnesses
    # "Be polite." has 9 visible characters, "Hello there, friend." has 18.
    assert witness["note"] == "message 1: 9 of 27 characters are not in the rendered text"
    assert witness["found"] == 0.6667
    case.contract["dataset"]["limits"] = {"content_survives": 1}
    assert case.verdict("dataset::content_survives").outcome == "passed"


@needs_datasets
def test_the_loader_of_trainers_is_compared(tmp_path):
    case = Case(tmp_path).write(rows()[:2], "a.jsonl").write([parts()], "b.jsonl")
    verdict = case.verdict("dataset::arrow_round_trip")
    assert verdict.headline == "arrow_round_trip: 1 × row with other ids from load_dataset"
    assert [witness["id"] for witness in verdict.witnesses] == ["parts"]
    assert "features with Json()" in verdict.advice
    case.contract["dataset"]["limits"] = {"arrow_round_trip": 1}
    assert case.verdict("dataset::arrow_round_trip").outcome == "passed"


@needs_datasets
def test_a_type_that_changes_behind_the_first_block_of_a_file(tmp_path):
    """110 rows of 100 KB, then one whose content is a list: the reader infers types from the first 10 MB."""
    padded = [
        {"uid": f"r{n}", "messages": [user("Hi."), answer("Yes.")], "padding": "x" * 100_000}
        for n in range(110)
    ]
    case = Case(tmp_path).write([*padded, {**parts(), "padding": ""}])
    assert case.verdict("dataset::arrow_round_trip").outcome == "failed"
    assert "parts" in names(case)
    case.contract["dataset"]["exhaustive"] = True
    case.report()
    # The loader writes the whole last block as JSON text: rows ahead of the list are changed too, those of
    # the first block are not.
    changed = set(names(case))
    assert {"r109", "parts"} <= changed
    assert "r0" not in changed


def names(case):
    from pytest_longctx.contract import load_contract
    from pytest_longctx.evidence import Evidence

    return [
        witness.id for witness in Evidence(load_contract(case.folder / "contract.yaml")).round_trip.witnesses
    ]


@needs_datasets
@pytest.mark.parametrize("values", [rows(), [{"uid": "t", "text": "Some text."}]])
def test_rows_of_one_type_come_back_as_they_were(tmp_path, values):
    assert Case(tmp_path).write(values).verdict("dataset::arrow_round_trip").outcome == "passed"


@needs_datasets
def test_arguments_of_many_types_come_back_as_they_were(tmp_path):
    values = rows()[2:]
    for place, arguments in enumerate(
        [{"b": 1, "a": 2.0}, {"city": "Rome"}, {"deep": {"x": [1, None, True]}}]
    ):
        row = json.loads(json.dumps(rows()[2]))
        row["uid"] = f"call{place}"
        row["messages"][1]["tool_calls"][0]["function"]["arguments"] = arguments
        values.append(row)
    assert Case(tmp_path).write(values).verdict("dataset::arrow_round_trip").outcome == "passed"


@needs_datasets
def test_files_that_the_loader_refuses(tmp_path):
    lists = parts()
    lists["messages"][1]["content"] = [{"type": "text", "text": "Hello there."}]
    case = Case(tmp_path).write(rows()[:2], "a.jsonl").write([lists], "b.jsonl")
    verdict = case.verdict("dataset::arrow_round_trip")
    assert verdict.outcome == "skipped"
    assert "load_dataset does not read together" in verdict.headline
    trained = {"trainer": {"name": "trl_sft", "config": {}}, "max_tokens_per_bin": 64}
    case.contract["packing"] = trained
    if find_spec("trl") is not None:
        failed = case.verdict("dataset::arrow_round_trip")
        assert failed.outcome == "failed"
        assert "Couldn't cast" in failed.context[0]


def test_without_datasets_the_round_trip_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_checks, "find_spec", lambda name: None)
    verdict = Case(tmp_path).write(rows()).verdict("dataset::arrow_round_trip")
    assert verdict.outcome == "skipped"
    assert verdict.headline == "arrow_round_trip needs datasets: pip install 'pytest-longctx[hub]'"
