from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.window import (
    DECISIONS,
    REASONS,
    WindowPolicy,
    WindowSamples,
    critical_windows,
    plan_window,
    smallest_window,
    what_if,
)

LENIENT = WindowPolicy(min_kept_supervised_tokens=1, max_supervision_loss_ratio=1.0)
STRICT = WindowPolicy()


def one(total, supervised, tail_start, tail_end):
    return WindowSamples.of([total], [supervised], [tail_start], [tail_end])


def decide(samples, window, policy):
    plan = plan_window(samples, window, policy)
    return DECISIONS[plan.decision[0]], int(plan.kept[0]), REASONS[plan.reason[0]]


class TestLengths:
    """Template, prompt and supervised tail are known as numbers only."""

    def test_decisions_by_hand(self):
        samples = WindowSamples.from_lengths(32, [300, 1760, 1761], [80, 256, 256])
        plan = plan_window(samples, 2048, STRICT)
        assert [DECISIONS[code] for code in plan.decision] == ["fit", "fit", "overflow"]
        assert samples.total.tolist() == [412, 2048, 2049]
        assert plan.kept.tolist() == [80, 256, 0]
        assert plan.loss.tolist() == [0.0, 0.0, 1 / 256]
        assert plan.length.tolist() == [412, 2048, 0]
        assert REASONS[plan.reason[2]] == "loss_ratio_too_high"

    def test_truncation_at_its_limits(self):
        samples = WindowSamples.from_lengths(8, [80], [40])  # 112 - 88 = 24 of 40 are kept, 40 % lost
        assert decide(samples, 112, WindowPolicy(20, 0.4)) == ("truncate", 24, "")
        assert decide(samples, 112, WindowPolicy(24, 0.4)) == ("truncate", 24, "")
        assert decide(samples, 112, WindowPolicy(25, 0.4)) == ("overflow", 0, "too_little_kept")
        assert decide(samples, 112, WindowPolicy(20, 0.1)) == ("overflow", 0, "loss_ratio_too_high")

    def test_a_rejected_sample_keeps_its_loss_ratio(self):
        plan = plan_window(WindowSamples.from_lengths(8, [80, 200], [40, 40]), 112, STRICT)
        assert plan.kept.tolist() == [0, 0]
        assert plan.loss.tolist() == [0.4, 1.0]

    def test_a_whole_sample_fits_however_little_it_teaches(self):
        assert decide(WindowSamples.from_lengths(0, [5], [3]), 8, WindowPolicy(100, 0.0)) == ("fit", 3, "")

    def test_a_prompt_that_fills_the_window(self):
        samples = WindowSamples.from_lengths(0, [17], [2])
        assert decide(samples, 16, LENIENT) == ("overflow", 0, "prompt_does_not_fit")
        assert decide(samples, 17, LENIENT) == ("overflow", 0, "too_little_kept")
        assert decide(samples, 18, LENIENT) == ("truncate", 1, "")
        # A prompt is never hurt, not even by a policy that asks for nothing.
        assert decide(samples, 16, WindowPolicy(0, 1.0)) == ("overflow", 0, "prompt_does_not_fit")

    def test_template_tokens_for_each_sample(self):
        assert WindowSamples.from_lengths([1, 2], [10, 10], [5, 5]).total.tolist() == [16, 17]

    @given(
        st.integers(0, 20),
        st.integers(0, 60),
        st.integers(1, 60),
        st.integers(1, 150),
        st.integers(1, 30),
        st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0]),
    )
    @settings(deadline=None, max_examples=400)
    def test_equals_the_rule_on_numbers(self, template, prompt, supervised, window, minimum, maximum):
        kept = min(supervised, max(0, window - template - prompt))
        loss = (supervised - kept) / supervised
        if kept == supervised:
            expected = "fit", kept
        elif kept >= minimum and loss <= maximum:
            expected = "truncate", kept
        else:
            expected = "overflow", 0
        samples = WindowSamples.from_lengths(template, [prompt], [supervised])
        assert decide(samples, window, WindowPolicy(minimum, maximum))[:2] == expected
        assert plan_window(samples, window, WindowPolicy(minimum, maximum)).loss[0] == loss


class TestRealSamples:
    """Prompt 0-10, answer 10-20, prompt 20-30, answer 30-50, template 50-52."""

    SAMPLE = one(52, 30, 30, 50)

    @pytest.mark.parametrize(
        ("window", "decision", "kept", "reason"),
        [
            (52, "fit", 30, ""),
            (51, "truncate", 30, ""),  # only template tokens are cut
            (50, "truncate", 30, ""),
            (49, "truncate", 29, ""),
            (31, "truncate", 11, ""),
            (30, "truncate", 10, ""),  # the last answer is cut whole, nothing before it is
            (29, "overflow", 0, "earlier_turn_cut"),
            (5, "overflow", 0, "earlier_turn_cut"),
        ],
    )
    def test_every_place_of_the_cut(self, window, decision, kept, reason):
        assert decide(self.SAMPLE, window, LENIENT) == (decision, kept, reason)

    def test_tokens_fed(self):
        lengths = [
            int(plan_window(self.SAMPLE, window, LENIENT).length[0]) for window in (60, 52, 51, 30, 29)
        ]
        assert lengths == [52, 52, 51, 30, 0]

    def test_cut_template_tokens_cost_nothing(self):
        plan = plan_window(self.SAMPLE, 50, WindowPolicy(min_kept_supervised_tokens=1_000))
        assert DECISIONS[plan.decision[0]] == "truncate"
        assert plan.loss.tolist() == [0.0]
        assert plan.lost_turn_ends == 0

    def test_lost_turn_ends(self):
        samples = WindowSamples.of([52, 52, 52, 40], [30, 30, 30, 30], [30, 30, 20, 10], [50, 50, 50, 40])
        assert plan_window(samples, 50, LENIENT).lost_turn_ends == 0
        assert plan_window(samples, 40, LENIENT).lost_turn_ends == 3

    def test_only_the_last_turn_is_supervised_and_cut_away(self):
        assert decide(one(30, 10, 20, 30), 20, LENIENT) == ("overflow", 0, "too_little_kept")

    def test_nothing_supervised(self):
        samples = one(10, 0, 0, 0)
        assert decide(samples, 10, LENIENT) == ("fit", 0, "")
        assert decide(samples, 9, LENIENT) == ("overflow", 0, "prompt_does_not_fit")
        assert plan_window(samples, 9, LENIENT).loss.tolist() == [0.0]

    def test_kept_turns(self):
        samples = WindowSamples.of([52, 52, 20], [30, 30, 10], [30, 30, 10], [50, 50, 20])
        turn_offsets, turn_end = np.array([0, 2, 4, 5]), np.array([20, 50, 20, 50, 20])
        assert plan_window(samples, 52, LENIENT).kept_turns(turn_offsets, turn_end).tolist() == [2, 2, 1]
        assert plan_window(samples, 50, LENIENT).kept_turns(turn_offsets, turn_end).tolist() == [2, 2, 1]
        assert plan_window(samples, 49, LENIENT).kept_turns(turn_offsets, turn_end).tolist() == [1, 1, 1]
        assert plan_window(samples, 25, LENIENT).kept_turns(turn_offsets, turn_end).tolist() == [0, 0, 1]

    def test_samples_without_turns_keep_none(self):
        plan = plan_window(WindowSamples.of([5, 6], [0, 2], [0, 4], [0, 6]), 10, LENIENT)
        assert plan.kept_turns(np.array([0, 0, 1]), np.array([6])).tolist() == [0, 1]


class TestRatios:
    SAMPLES = WindowSamples.of([10, 20, 30, 40], [5, 10, 10, 20], [5, 10, 20, 20], [10, 20, 30, 40])
    POLICY = WindowPolicy(1, 0.5)

    def test_by_hand(self):
        plan = plan_window(self.SAMPLES, 25, self.POLICY)
        # 10 and 20 fit; 30 loses 5 of 10; 40 loses 15 of 20.
        assert [DECISIONS[code] for code in plan.decision] == ["fit", "fit", "truncate", "overflow"]
        assert (plan.overflow_ratio, plan.truncated_ratio) == (0.25, 0.25)
        assert plan.kept_supervision_ratio == 20 / 45

    def test_nothing(self):
        plan = plan_window(WindowSamples.of([], [], [], []), 25, self.POLICY)
        assert (plan.overflow_ratio, plan.truncated_ratio, plan.kept_supervision_ratio) == (0.0, 0.0, 1.0)
        curve = what_if(WindowSamples.of([], [], [], []), self.POLICY, [1, 2])
        assert curve.overflow_ratio.tolist() == [0.0, 0.0]
        assert curve.kept_supervision_ratio.tolist() == [1.0, 1.0]
        assert smallest_window(WindowSamples.of([], [], [], []), self.POLICY, 0.0) == 1

    def test_critical_windows_by_hand(self):
        assert critical_windows(self.SAMPLES, self.POLICY).tolist() == [8, 15, 25, 30]
        assert critical_windows(self.SAMPLES, STRICT).tolist() == [10, 20, 30, 40]
        assert critical_windows(self.SAMPLES, WindowPolicy(7, 0.5)).tolist() == [10, 17, 27, 30]

    @pytest.mark.parametrize(
        ("limit", "window"), [(0.0, 30), (0.24, 30), (0.25, 25), (0.5, 15), (0.75, 8), (1.0, 1)]
    )
    def test_smallest_window_by_hand(self, limit, window):
        assert smallest_window(self.SAMPLES, self.POLICY, limit) == window

    def test_smallest_window_refuses_a_negative_limit(self):
        with pytest.raises(ValueError, match=r"max_overflow_ratio must not be negative, is -0\.1"):
            smallest_window(self.SAMPLES, self.POLICY, -0.1)

    def test_select(self):
        chosen = self.SAMPLES.select(np.array([False, True, False, True]))
        assert chosen.total.tolist() == [20, 40]
        assert chosen.tail_start.tolist() == [10, 20]


@st.composite
def sample_columns(draw):
    """Columns of a few samples: total, supervised, tail_start, tail_end."""
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        before, tail, behind = draw(st.integers(0, 30)), draw(st.integers(1, 30)), draw(st.integers(0, 4))
        earlier = draw(st.integers(0, before))
        rows.append((before + tail + behind, earlier + tail, before, before + tail))
    return WindowSamples.of(*map(list, zip(*rows, strict=True)))


POLICIES = st.builds(WindowPolicy, st.integers(0, 20), st.sampled_from([0.0, 0.1, 0.3, 1 / 3, 0.7, 0.9, 1.0]))


@given(sample_columns(), POLICIES)
@settings(deadline=None, max_examples=100)
def test_curve_equals_a_plan_for_every_window(samples, policy):
    windows = np.arange(1, 70)
    curve = what_if(samples, policy, windows)
    plans = [plan_window(samples, int(window), policy) for window in windows]
    assert curve.overflow_ratio.tolist() == [plan.overflow_ratio for plan in plans]
    assert curve.truncated_ratio.tolist() == [plan.truncated_ratio for plan in plans]
    assert curve.kept_supervision_ratio.tolist() == [plan.kept_supervision_ratio for plan in plans]
    for limit in (0.0, 0.2, 0.5, 0.99):
        first = next(plan.window for plan in plans if plan.overflow_ratio <= limit)
        assert smallest_window(samples, policy, limit) == first


def test_losable_tokens_are_exact_in_floating_point():
    # 0.1 x 3 and the like are rounded; the rule is on the quotient.
    for supervised in (1, 2, 3, 7, 10, 49, 99, 100):
        for lost in range(supervised + 1):
            samples = one(supervised, supervised, 0, supervised)
            policy = WindowPolicy(0, lost / supervised)
            assert critical_windows(samples, policy).tolist() == [supervised - lost]


def test_losable_tokens_just_below_a_quotient():
    # The product with a ratio just below 5/7 may be rounded up to 5: the fifth is not losable all the same.
    for supervised in range(1, 60):
        for lost in range(1, supervised + 1):
            policy = WindowPolicy(0, float(np.nextafter(lost / supervised, 0.0)))
            samples = one(supervised, supervised, 0, supervised)
            assert critical_windows(samples, policy).tolist() == [supervised - lost + 1]


def test_critical_window_of_nothing_supervised():
    assert critical_windows(one(10, 0, 10, 10), LENIENT).tolist() == [10]
    assert critical_windows(one(10, 1, 9, 10), WindowPolicy(1, 0.9)).tolist() == [10]
    assert smallest_window(one(0, 0, 0, 0), STRICT, 0.0) == 1


def test_a_window_of_one_token_is_enough_where_all_may_overflow():
    assert smallest_window(WindowSamples.from_lengths(0, [5, 6, 7], [1, 1, 1]), STRICT, 1.0) == 1
    assert smallest_window(WindowSamples.from_lengths(0, [5, 6, 7], [1, 1, 1]), STRICT, 0.99) == 6


def test_rejected_samples_lose_no_turn_end_of_their_own():
    samples = WindowSamples.from_lengths(0, [5, 5, 30], [5, 10, 5])  # fit, cut to 5 of 10, rejected
    assert plan_window(samples, 10, LENIENT).lost_turn_ends == 1


def test_an_only_turn_behind_a_prompt_that_does_not_fit():
    assert decide(one(12, 7, 5, 12), 4, LENIENT) == ("overflow", 0, "prompt_does_not_fit")
    assert decide(one(12, 8, 5, 12), 4, LENIENT) == ("overflow", 0, "earlier_turn_cut")


def test_the_policy_of_the_seed():
    assert WindowPolicy() == WindowPolicy(min_kept_supervised_tokens=1, max_supervision_loss_ratio=0.0)


class TestRefusals:
    @pytest.mark.parametrize(
        "columns",
        [
            ([10], [11], [0], [10]),  # more supervised than tokens
            ([10], [5], [4], [10]),  # the tail is longer than all supervised tokens
            ([10], [5], [8], [12]),  # it ends behind the sample
            ([10], [5], [8], [7]),
            ([10], [5], [-1], [3]),
            ([10], [5], [7], [7]),  # supervised, yet without a tail
        ],
    )
    def test_contradictions(self, columns):
        with pytest.raises(ValueError, match="sample 0 contradicts itself: total 10, supervised"):
            WindowSamples.of(*columns)

    def test_columns_of_different_length(self):
        with pytest.raises(ValueError, match="total 2, supervised 1, tail_start 1, tail_end 1"):
            WindowSamples.of([10, 10], [5], [5], [10])
        with pytest.raises(ValueError, match="the columns differ in length: 2 and 1"):
            WindowSamples.from_lengths(0, [10, 10], [5])

        with pytest.raises(ValueError, match="the columns differ in length: 1 and 2"):
            WindowSamples.from_lengths(0, [10], [5, 5])

    def test_fewer_than_no_supervised_token(self):
        with pytest.raises(ValueError, match="total 10, supervised -1, tail_start 3, tail_end 5"):
            WindowSamples.of([10], [-1], [3], [5])

    def test_policy_and_window(self):
        with pytest.raises(
            ValueError, match=r"max_supervision_loss_ratio must lie between 0 and 1, is -0\.1"
        ):
            WindowPolicy(1, -0.1)
        with pytest.raises(ValueError, match=r"max_supervision_loss_ratio must lie between 0 and 1, is 1\.1"):
            WindowPolicy(1, 1.1)
        with pytest.raises(ValueError, match="max_supervision_loss_ratio must lie between 0 and 1, is nan"):
            WindowPolicy(1, float("nan"))
        with pytest.raises(ValueError, match="min_kept_supervised_tokens must not be negative, is -1"):
            WindowPolicy(-1)
        with pytest.raises(ValueError, match="the window must be at least 1 token, not 0"):
            plan_window(one(10, 5, 5, 10), 0, STRICT)
