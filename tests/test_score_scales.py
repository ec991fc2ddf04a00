"""Scores of one run as shares of 1 and of another in percent: every gate would hold, and mean nothing."""

from __future__ import annotations

import pytest

from pytest_longctx.curriculum import SCORES, MetricsError, Stage, check_scale


def with_scores(*runs):
    return [Stage(name, None, dict(zip(SCORES, both, strict=True))) for name, *both in runs]


@pytest.mark.parametrize(
    "runs",
    [
        [("4k", 0.56, 0.82), ("8k", 20.0, 41.0)],
        [("4k", 20.0, 41.0), ("8k", 0.56, 0.82)],
        [("4k", 0.56, 0.82), ("8k", -0.1, 2), ("16k", 20.0, 41.0)],
        [("4k", 0, 1), ("8k", 1.01, 10.01)],
        [("run", 0.56, 0.82), ("run", 20.0, 41.0)],
    ],
)
def test_scores_on_two_scales_are_refused(runs):
    with pytest.raises(MetricsError, match="expected one scale in all files"):
        check_scale(with_scores(*runs))


def test_scores_on_two_scales_are_told_with_both_runs():
    said = (
        "long_context_score and short_context_score: found [0.56, 0.82] in 8k and [20.0, 41.0] in 4k, "
        "expected one scale in all files; write all scores as shares of 1, or all in percent"
    )
    with pytest.raises(MetricsError) as raised:
        check_scale(
            with_scores(("4k", 20.0, 41.0), ("8k", 0.56, 0.82), ("16k", 0.6, 0.8), ("32k", 21.0, 42.0))
        )
    assert str(raised.value) == said


@pytest.mark.parametrize(
    "runs",
    [
        [("4k", 0.56, 0.82), ("8k", 0.63, 1)],
        [("4k", 56, 82), ("8k", 63, 81)],
        [("4k", 0.9, 0.7), ("8k", 2.5, 10)],  # of a reward
        [("4k", 0.9, 0.7), ("8k", 2.5, 9)],
        [("4k", 0.5, 1.5), ("8k", 20.0, 41.0)],
        [("4k", 0.56, 0.82), ("8k", 0.5, 41.0)],
        [("4k", 0, 0.0), ("8k", 20.0, 41.0)],
        [("4k", 0, 0), ("8k", 20.0, 41.0)],  # nothing right, on either scale
        [("4k", 0.5, 41.0), ("8k", 20.0, 41.0)],
        [("4k", 0.56, 0.82), ("8k", 1, 41.0)],
        [("4k", -0.5, 0.82), ("8k", 20.0, 41.0)],
    ],
)
def test_scores_that_may_be_on_one_scale(runs):
    check_scale(with_scores(*runs))
