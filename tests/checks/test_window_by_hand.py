"""The window's plan against the tokens themselves, and the share of turns where there are none."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.checks.window import measured_value, policy
from pytest_longctx.tokens.sample import PROMPT, SUPERVISED, TEMPLATE
from pytest_longctx.window import WindowPolicy, WindowSamples, plan_window


class Ledger(list):
    ids = ("a",)


def cut(supervised, kept, kind):
    """Evidence of one sample, one token of template before `supervised` ones, of which `kept` are kept."""
    total = 1 + supervised
    samples = WindowSamples.of([total], [supervised], [1], [total])
    plan = plan_window(samples, 1 + kept, WindowPolicy(1, 1.0))
    assert (plan.length.tolist(), plan.kept.tolist()) == ([1 + kept], [kept])
    measured = SimpleNamespace(ledger=Ledger([0]), samples=[SimpleNamespace(kind=np.array(kind))])
    return SimpleNamespace(plan=plan, measured=measured)


@pytest.mark.parametrize(("supervised", "kept"), [(2, 1), (400, 300), (70_000, 66_000)])
def test_a_cut_keeps_as_many_tokens_as_planned(supervised, kept):
    kind = [TEMPLATE] + [SUPERVISED] * supervised
    assert policy(cut(supervised, kept, kind)).outcome == "passed"


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ((SUPERVISED, SUPERVISED, SUPERVISED, TEMPLATE), 3),
        ((TEMPLATE, SUPERVISED, PROMPT, SUPERVISED), 1),
        ((TEMPLATE, TEMPLATE, TEMPLATE, SUPERVISED), 0),
    ],
)
def test_a_cut_that_keeps_more_or_fewer(kind, found):
    verdict = policy(cut(3, 2, kind))
    assert (verdict.outcome, verdict.measured) == ("failed", 1)
    assert verdict.witnesses == (
        {"id": "a", "expected": 2, "found": found, "note": "supervised tokens before the cut"},
    )


def test_of_no_turns_all_are_kept():
    ledger = SimpleNamespace(turn_offsets=np.array([0, 0]), turns=np.empty((0, 2), np.int64))
    plan = plan_window(WindowSamples.of([4], [4], [0], [4]), 3, WindowPolicy(1, 1.0))
    evidence = SimpleNamespace(plan=plan, measured=SimpleNamespace(ledger=ledger))
    assert measured_value("min_kept_turn_ratio", evidence) == 1.0
    assert measured_value("min_kept_supervision_ratio", evidence) == 0.75
