"""The curriculum example, run as a user would; and what is wrong with metrics."""

from __future__ import annotations

import json
import shutil

import pytest

CONTRACT = "--longctx-contract=curriculum/contract.yaml"
METRICS = {
    "target_context_len": 8192,
    "long_context_score": 0.63,
    "short_context_score": 0.81,
    "supervised_tokens_per_optimizer_step": 67000,
    "loss_finite": True,
    "gradients_finite": True,
    "failed_runs": 0,
    "peak_memory_gb": 9.8,
    "cost_per_supervised_token": 1.25,
}


@pytest.fixture
def example(pytester, examples):
    for name in ("curriculum", "data", "tokenizer"):
        shutil.copytree(examples / name, pytester.path / name)
    shutil.copy(examples / "chatml.jinja", pytester.path / "chatml.jinja")
    return pytester.path / "curriculum"


def test_one_stage_advances_and_one_is_held(pytester, example):
    result = pytester.runpytest(CONTRACT, "-m", "longctx_curriculum")
    assert result.parseoutcomes()["failed"] == 1
    assert "errors" not in result.parseoutcomes()
    result.stdout.fnmatch_lines(
        [
            "short_context_regression: 16k has 0.036, needed ≤ 0.02",
            "*compared with 8k*",
            "stage 8k: advance",
            "stage 16k: hold (short_context_regression)",
        ]
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"failed_runs": None}, "failed_runs is None, expected a number"),
        ({"loss_finite": "true"}, "loss_finite"),
        ({"peak_memory_gb": "9.8"}, "peak_memory_gb is '9.8', expected a number"),
        ({"long_context_score": float("nan")}, "long_context_score is nan, expected a finite number"),
        ({"target_context_len": 4096}, "4096"),
        ({"long_context_score": 63.0, "short_context_score": 81.0}, "expected one scale in all files"),
        ({"failed_runs": -1}, "failed_runs is -1, expected 0 or more"),
        ({"peak_memory_gb": 10**400}, "peak_memory_gb is an integer beyond every float"),
    ],
)
def test_metrics_that_cannot_be_used(pytester, example, change, said):
    (example / "8k.json").write_text(json.dumps({**METRICS, **change}))
    result = pytester.runpytest(CONTRACT, "-m", "longctx_curriculum", "-k", "nonfinite_loss")
    assert result.ret == 1
    text = " ".join(result.stdout.str().split())
    assert said in text
    assert "Traceback" not in text
    assert "stage 8k: advance" not in text


def test_a_flag_that_is_false_holds_the_stage(pytester, example):
    (example / "8k.json").write_text(json.dumps({**METRICS, "gradients_finite": False, "failed_runs": 1}))
    result = pytester.runpytest(CONTRACT, "-m", "longctx_curriculum", "-k", "8k")
    result.stdout.fnmatch_lines(["stage 8k: hold (nonfinite_gradients, failed_runs)"])


def test_a_claimed_budget_that_the_rows_do_not_give(pytester, example):
    """The rows give 67,318 a step; half of it is claimed."""
    (example / "8k.json").write_text(json.dumps({**METRICS, "supervised_tokens_per_optimizer_step": 33500}))
    result = pytester.runpytest(CONTRACT, "-m", "longctx_curriculum", "-k", "8k and budget")
    result.stdout.fnmatch_lines(
        ["measured_token_budget: 8k has 67,318 a step, the metrics claim 33,500", "stage 8k: hold (*"]
    )


@pytest.mark.parametrize(("named", "claimed"), [("", 16384), ("target_context_len: 16384, ", None)])
def test_the_window_of_the_baseline(pytester, example, named, claimed):
    """It is the contract's, or where that names none, the one in its metrics."""
    contract, metrics = example / "contract.yaml", example / "4k.json"
    text = contract.read_text()
    assert "name: 4k, target_context_len: 4096, " in text
    contract.write_text(text.replace("target_context_len: 4096, ", named))
    values = json.loads(metrics.read_text())
    del values["target_context_len"]
    metrics.write_text(json.dumps(values | ({"target_context_len": claimed} if claimed else {})))
    result = pytester.runpytest(CONTRACT, "-m", "longctx_curriculum", "-k", "stage_order and 8k")
    result.stdout.fnmatch_lines(["stage_order: 8k has 8,192, needed > 16,384", "*compared with 4k*"])
