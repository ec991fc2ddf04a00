from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.contract import WindowLimits
from pytest_longctx.report.what_if import smallest_passing, window_summary
from pytest_longctx.window import WindowPolicy, WindowSamples, plan_window

SHARES = st.none() | st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])


def slow(samples, policy, limits):
    """Try every window."""
    for window in range(1, int(samples.total.max()) + 2):
        plan = plan_window(samples, window, policy)
        over = limits.max_overflow_ratio is None or plan.overflow_ratio <= limits.max_overflow_ratio
        cut = limits.max_truncated_ratio is None or plan.truncated_ratio <= limits.max_truncated_ratio
        least = limits.min_kept_supervision_ratio
        if over and cut and (least is None or plan.kept_supervision_ratio >= least):
            return window
    return None


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=7),
    st.tuples(SHARES, SHARES, SHARES),
    st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.25, 0.5, 1.0])),
)
def test_the_smallest_window_that_passes(rows, shares, policy):
    prompt, supervised = np.array(rows).T
    if (prompt + supervised).max() == 0:
        return
    samples = WindowSamples.of(prompt + supervised, supervised, prompt, prompt + supervised)
    names = ("max_overflow_ratio", "max_truncated_ratio", "min_kept_supervision_ratio")
    limits = WindowLimits(**dict(zip(names, shares, strict=True)))
    found = smallest_passing(samples, WindowPolicy(*policy), limits)
    if shares == (None, None, None):
        assert found is None
    else:
        assert found == slow(samples, WindowPolicy(*policy), limits)


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
