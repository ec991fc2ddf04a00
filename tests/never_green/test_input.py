"""Input from which nothing can be concluded never passes: each way ends red, and says why."""

from __future__ import annotations

import json

import pytest
import yaml

from pytest_longctx import check_contract

NOTHING = "no row became a sample: see dataset::rows"


def data(pytester, *rows):
    path = pytester.path / "data" / "chats.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def outcomes(path):
    """Outcome of every check without pytest, where the same holds."""
    report = check_contract(path)
    assert not report.passed
    return {result.check.id: result.outcome for result in report.results}


def test_no_rows(pytester, project, not_green):
    lengths = {"short_threshold": 1, "long_threshold": 2, "limits": {"max_tokens": 100}}
    path = project(lengths=lengths)
    data(pytester)
    not_green(1, "rows: 1 of 1 rows cannot be used", "empty_file", NOTHING)
    found = outcomes(path)
    assert found.pop("dataset::rows") == "failed"
    assert found.pop("tokenizer::pinned") == "passed"
    assert set(found.values()) == {"error"}, "what is said of no sample at all is always true"


def test_a_registered_dataset_without_rows(pytester, project, not_green):
    project(dataset={"path": "registered:none"}, packing=None)
    pytester.makeconftest("def pytest_longctx_datasets():\n    return {'none': lambda: iter(())}\n")
    not_green(1, "rows: 1 of 1 rows cannot be used", "empty_file", NOTHING)


def test_every_row_is_rejected(pytester, project, not_green):
    path = project(
        dataset={"path": str(pytester.path / "data" / "chats.jsonl"), "shape": "messages"}, packing=None
    )
    data(pytester, *({"text_of_row": "x"} for _ in range(4)))
    not_green(1, "rows: 4 of 4 rows cannot be used", "4 × missing_keys", NOTHING)
    assert outcomes(path)["window::max_overflow_ratio"] == "error"


def test_rows_that_are_lengths_where_texts_were_to_be_looked_at(pytester, project, not_green):
    path = project(packing=None)
    data(pytester, *({"prompt_tokens": 3, "supervised_tokens": 5} for _ in range(4)))
    not_green(1, "Write dataset.shape: lengths")
    found = outcomes(path)
    assert found["supervision::present"] == found["dataset::control_tokens"] == "error"


def test_no_sample_fits_the_window(project, not_green):
    project(window={"target_context_len": 3, "limits": {"max_overflow_ratio": 1.0}}, packing=None)
    not_green(1, "policy: none of 10 samples is admitted", "no sample fits the window of 3 tokens")


def test_nothing_is_supervised(pytester, project, not_green):
    """A marker that no row holds: every label is -100, and a loss over nothing is 0 / 0."""
    path = project(
        supervision={"marker": "@@never@@"},
        window={"target_context_len": 64, "limits": {"min_kept_supervision_ratio": 0.9}},
        packing={"packer": "ffd"},
    )
    not_green(1, "present: 10 × no answer token to learn")
    found = outcomes(path)
    assert found["supervision::present"] == "failed"
    assert found["window::min_kept_supervision_ratio"] == "failed"
    assert found["packing::supervision_per_row"] == "failed"


def test_empty_answers(rows, project, not_green):
    for row in rows:
        row["messages"][1]["content"] = ""
    project(packing=None)
    not_green(1, "present: 10 × no answer token to learn")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "null", '"0.5"', "true", "1" * 5000])
def test_a_metric_that_is_no_number(pytester, project, not_green, value):
    metrics = {
        "long_context_score": 0.5,
        "short_context_score": 0.5,
        "supervised_tokens_per_optimizer_step": 100,
        "failed_runs": 0,
        "peak_memory_gb": 1.0,
        "cost_per_supervised_token": 1.0,
        "loss_finite": True,
        "gradients_finite": True,
    }
    text = json.dumps(metrics)
    (pytester.path / "4k.json").write_text(text)
    (pytester.path / "8k.json").write_text(
        text.replace('"long_context_score": 0.5', f'"long_context_score": {value}')
    )
    limits = {
        "min_long_context_gain": 0.0,
        "max_short_context_regression": 0.0,
        "max_failed_runs": 0,
        "max_peak_memory_gb": 2,
        "max_cost_per_supervised_token": 2,
    }
    stage = {"name": "8k", "target_context_len": 8192, "metrics": "../8k.json"}
    project(
        curriculum={"baseline": {"metrics": "../4k.json"}, "stages": [stage], "limits": limits},
        packing=None,
        window=None,
    )
    ended = not_green(1, "8k.json: ", args=("-m", "longctx_curriculum"))
    assert "passed" not in ended.result.parseoutcomes()


def test_an_unknown_key(project, not_green):
    project(window={"target_context_len": 64, "limit": {"max_overflow_ratio": 0.0}})
    not_green(4, "window.limit: unknown key, did you mean 'limits'?")


def test_a_limit_that_is_no_number(project, not_green):
    project(window={"target_context_len": 64, "limits": {"max_overflow_ratio": float("nan")}})
    not_green(4, "window.limits.max_overflow_ratio: found nan, expected")


@pytest.mark.parametrize(
    "section",
    [
        {"window": {}},
        {"lengths": {}},
        {"lengths": {"short_threshold": 1, "long_threshold": 2}},
        {"lengths": {"short_threshold": 1, "long_threshold": 2, "limits": {}}},
        {"packing": {"packer": "ffd", "invariants": []}},
        {"packing": {}},
        {"curriculum": {}},
        {"baseline": {"max_regression": {}}},
    ],
    ids=lambda section: yaml.safe_dump(section, default_flow_style=True).strip(),
)
def test_a_section_that_asks_for_nothing(project, not_green, section):
    """A section that is there and makes no check is refused, not passed over; or it makes checks."""
    path = project(**section)
    ended = not_green(4) if section != {"packing": {}} else None
    if ended is None:
        found = check_contract(path)
        assert sum(result.check.section == "packing" for result in found.results) > 10
    else:
        ended.says(f"{next(iter(section))}")


def test_a_sample_that_cannot_decide(pytester, rows, project, not_green):
    rows += [{**rows[0], "uid": f"more-{number}"} for number in range(90)]
    rows[0]["messages"] = [{**message, "content": "why " * 100} for message in rows[0]["messages"]]
    path = pytester.path / "data" / "chats.jsonl"
    project(
        dataset={"path": str(path), "id": "uid", "sample": {"rows": 8, "seed": 3}},
        window={"target_context_len": 64, "limits": {"max_overflow_ratio": 0.05}},
        packing=None,
    )
    not_green(1, "max_overflow_ratio: 8 drawn rows cannot decide the limit 5 %", "dataset.sample.rows")
