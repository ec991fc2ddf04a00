from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.contract import WindowLimits
from pytest_longctx.report.what_if import smallest_passing, window_summary
from pytest_longctx.window import WindowPolicy, WindowSamples, plan_window

SHARES = st.none() | st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])


def slow(samples, policy, limits, ledger):
    """Try every window."""
    for window in range(1, int(samples.total.max()) + 2):
        plan = plan_window(samples, window, policy)
        over = limits.max_overflow_ratio is None or plan.overflow_ratio <= limits.max_overflow_ratio
        cut = limits.max_truncated_ratio is None or plan.truncated_ratio <= limits.max_truncated_ratio
        least, least_turns = limits.min_kept_supervision_ratio, limits.min_kept_turn_ratio
        kept = least is None or plan.kept_supervision_ratio >= least
        turns = plan.kept_turns(ledger.turn_offsets, ledger.turns[:, 1]).sum() / max(1, len(ledger.turns))
        whole = least_turns is None or not len(ledger.turns) or turns >= least_turns
        if over and cut and kept and whole:
            return window
    return None


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12), st.none() | st.integers(1, 4)),
        min_size=1,
        max_size=7,
    ),
    st.tuples(SHARES, SHARES, SHARES, SHARES),
    st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.25, 0.5, 1.0])),
)
def test_the_smallest_window_that_passes(rows, shares, policy):
    samples, ledger = of_turns(rows)
    if samples.total.max() == 0:
        return
    limits = WindowLimits(**dict(zip(WindowLimits.model_fields, shares, strict=True)))
    found = smallest_passing(samples, WindowPolicy(*policy), limits, ledger)
    if set(shares) == {None}:
        assert found is None
    else:
        assert found == slow(samples, WindowPolicy(*policy), limits, ledger)


def of_turns(rows):
    """Samples of prompt and answer, before which some have an earlier turn of so many tokens."""
    spans = []
    for prompt, answer, earlier in rows:
        first = [] if earlier is None else [(0, earlier)]
        start = prompt + (earlier or 0)
        spans.append([*first, *([(start, start + answer)] if answer else [])])
    total = [sum(filter(None, row)) for row in rows]
    supervised = [sum(end - start for start, end in row) for row in spans]
    start, end = zip(*(row[-1] if row else (0, 0) for row in spans), strict=True)
    ledger = SimpleNamespace(
        turns=np.array([span for row in spans for span in row], dtype=np.int32).reshape(-1, 2),
        turn_offsets=np.cumsum([0, *map(len, spans)]),
    )
    return WindowSamples.of(total, supervised, start, end), ledger


def test_a_window_in_which_enough_turns_are_whole():
    """Nine answers of 1190 tokens, one of 90, after 10 each: in a window of 605 the nine are cut in half."""
    samples, ledger = of_turns([(10, 1190, None)] * 9 + [(10, 90, None)])
    policy = WindowPolicy(1, 0.5)

    def smallest(**limits):
        return smallest_passing(samples, policy, WindowLimits(**limits), ledger)

    assert smallest(max_overflow_ratio=0.0) == 605
    assert smallest(max_overflow_ratio=0.0, min_kept_turn_ratio=0.9) == 1200
    assert smallest(min_kept_turn_ratio=0.9) == 1200
    assert smallest(min_kept_turn_ratio=0.1) == 100
    assert smallest(min_kept_turn_ratio=0.0) == 1
    assert smallest(max_overflow_ratio=0.0, min_kept_turn_ratio=0.1) == 605
    assert smallest() is None


def test_the_summary_of_a_plan(evidence):
    summary = window_summary(evidence)
    assert {name: summary[name] for name in ("window", "fit", "truncate", "overflow")} == {
        "window": 8,
        "fit": 2,
        "truncate": 1,
        "overflow": 1,
    }
    assert summary["kept_supervision_ratio"] == 12 / 16
    assert summary["limits"] == {"max_overflow_ratio": 0.25}
    # In 7 tokens b keeps 5 of 6 and c 3 of 6 supervised tokens, which is enough; in 6 c keeps too little.
    assert summary["smallest_passing"] == 7
    curve = summary["curve"]
    at = curve["windows"].index(8)
    assert (curve["overflow_ratio"][at], curve["truncated_ratio"][at]) == (0.25, 0.25)
    assert 7 in curve["windows"]
    assert curve["overflow_ratio"][-1] == 0
