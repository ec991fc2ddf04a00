"""What is said of an unknown key deep in a section."""

from __future__ import annotations

import pytest

GATES = (
    "limits: {min_long_context_gain: 0, max_short_context_regression: 0, max_failed_runs: 0, "
    "max_peak_memory_gb: 1, max_cost_per_supervised_token: 1}"
)


@pytest.fixture
def of_stage(below):
    """The problems of the second stage's last key, without their places."""

    def of_stage(text):
        sound = "{name: a, target_context_len: 8, metrics: m}"
        stage = f"{{name: b, target_context_len: 16, {text}}}"
        found = below(f"curriculum: {{baseline: {{metrics: b}}, {GATES}, stages: [{sound}, {stage}]}}")
        return [problem.partition(" curriculum.stages.1.")[2] for problem in found]

    return of_stage


def test_a_key_below_an_item_of_a_list(of_stage):
    assert of_stage("metrics: m, batch: {rows_per_devic: 1}") == [
        "batch.rows_per_devic: unknown key, did you mean 'rows_per_device'?"
    ]
    assert of_stage("metrics: m, batch: {qqq: 1}") == [
        "batch.qqq: unknown key, known: devices, gradient_accumulation, rows_per_device"
    ]


def test_a_key_below_an_alternative_of_an_item(of_stage):
    assert of_stage("metrics: {trainer_state: s, eval: e, map: {}, mpa: {}}") == [
        "metrics.mpa: unknown key, did you mean 'map'?"
    ]


def test_a_key_that_is_missing_below_an_item(of_stage):
    assert of_stage("metrics: {eval: e, map: {}}") == ["metrics.trainer_state: missing"]
    assert of_stage("metrics: {trainer_state: 5, eval: e, map: {}}") == [
        "metrics.trainer_state: found 5, expected text"
    ]


def test_a_key_of_an_item_itself(of_stage):
    assert of_stage("metric: m, metrics: m") == ["metric: unknown key, did you mean 'metrics'?"]


def test_a_value_in_a_list_of_texts(problems):
    assert problems("contract: 1\ntokenizer: {path: t}\ndataset: {path: [a, b, 5]}") == [
        "3:24: dataset.path.2: found 5, expected text"
    ]
    assert problems("contract: 1\ntokenizer: {path: t}\ndataset: {path: [5]}") == [
        "3:18: dataset.path.0: found 5, expected text"
    ]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            "{id: org/name, revision: main}",
            ["model.revision: found text 'main', expected a commit: 40 hexadecimal digits (0-9, a-f)"],
        ),
        ("{id: org/name}", ["model.revision: missing"]),
        ("{architecture: qwen2, size: 5}", ["model.size: found 5, expected text"]),
        (
            "{architectur: qwen2, size: tiny}",
            [
                "model.architecture: missing",
                "model.architectur: unknown key, did you mean 'architecture'?",
            ],
        ),
        (
            "{idd: org/name, revision: main}",
            [
                "model.id: missing",
                "model.revision: found text 'main', expected a commit: 40 hexadecimal digits (0-9, a-f)",
                "model.idd: unknown key, did you mean 'id'?",
            ],
        ),
        (
            "{}",
            [
                "model.id: missing",
                "model.revision: missing",
                "model.architecture: missing",
                "model.size: missing",
            ],
        ),
    ],
)
def test_of_two_kinds_of_models_the_one_that_was_meant(below, model, said):
    """The one with the fewest keys that are missing or unknown; both where that does not tell."""
    found = below(f"gpu: {{model: {model}, sequence_lengths: [1024]}}")
    assert sorted(problem.partition(" gpu.")[2] for problem in found) == sorted(said)
