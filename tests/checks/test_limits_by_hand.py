"""Section `window` on a few rows of lengths alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.checks.window import limit as window_limit
from pytest_longctx.checks.window import policy
from pytest_longctx.tokens.sample import SUPERVISED, TEMPLATE
from pytest_longctx.window import WindowPolicy, WindowSamples, plan_window

# Totals 10, 20, 30 and 40, each with 10 supervised tokens at its end.
ROWS = [(0, 10), (10, 10), (20, 10), (30, 10)]


class TestWindow:
    @pytest.fixture
    def limit(self, judge):
        def judged(name, value, rows=ROWS, kind="limits", sample=None, **policy):
            # A window of 25: rows 0 and 1 fit, row 2 keeps 5 of 10, row 3 is all prompt.
            policy = {"min_kept_supervised_tokens": 1, "max_supervision_loss_ratio": 0.5, **policy}
            window = {"target_context_len": 25, kind: {name: value}, **policy}
            return judge(rows, sample, window=window)[name]

        return judged

    @pytest.mark.parametrize(
        ("name", "measured"),
        [
            ("max_overflow_ratio", 0.25),
            ("max_truncated_ratio", 0.25),
            ("min_kept_supervision_ratio", 25 / 40),
            ("min_kept_turn_ratio", 0.5),
        ],
    )
    def test_measured_by_hand(self, limit, name, measured):
        verdict = limit(name, measured)
        assert (verdict.outcome, verdict.measured, verdict.unit) == ("passed", measured, "ratio")
        beyond = measured + 0.01 if name.startswith("min_") else measured - 0.01
        assert limit(name, beyond).outcome == "failed"
        assert limit(name, beyond, kind="warn").outcome == "warned"

    def test_overflow_names_the_worst_rows_and_the_window_that_would_do(self, limit):
        verdict = limit("max_overflow_ratio", 0.2)
        assert verdict.headline == "max_overflow_ratio 25 % > 20 %  (1 of 4 samples)"
        assert verdict.context == ("window 25 = template + prompt + supervised",)
        assert verdict.witnesses == (
            {
                "id": "r3",
                "total": 40,
                "template": 0,
                "prompt": 30,
                "supervised": 10,
                "kept": 0,
                "reason": "prompt does not fit",
            },
        )
        # In a window of 35 the last row keeps 5 of 10, too.
        assert verdict.advice == "a window of 35 would pass; or drop the 1 rows listed by --longctx-report"
        assert limit("max_overflow_ratio", 0.2, kind="warn").advice == verdict.advice

    def test_what_is_cut_is_counted_for_truncation(self, limit):
        verdict = limit("max_truncated_ratio", 0.0)
        assert verdict.headline == "max_truncated_ratio 25 % > 0 %  (1 of 4 samples)"
        assert [(row["id"], row["kept"], "reason" in row) for row in verdict.witnesses] == [("r2", 5, False)]
        assert (verdict.more, verdict.advice.split(",")[0]) == (0, "widen the window")

    def test_the_worst_row_lacks_the_most_tokens(self, limit):
        # Of 32 and 40 tokens 25 are fed: 7 and 15 are lost.
        verdict = limit("max_truncated_ratio", 0.0, rows=[(0, 32), (0, 40)])
        assert [row["id"] for row in verdict.witnesses] == ["r1", "r0"]

    def test_the_window_that_would_do_is_told_of_overflow_alone(self, judge):
        limits = {"max_overflow_ratio": 0.2, "max_truncated_ratio": 0.0}
        policy = {"min_kept_supervised_tokens": 1, "max_supervision_loss_ratio": 0.5}
        found = judge(ROWS, window={"target_context_len": 25, "limits": limits, **policy})
        assert found["max_overflow_ratio"].advice.startswith("a window of 35 would pass")
        assert found["max_truncated_ratio"].advice.startswith("widen the window")

    @pytest.mark.parametrize(
        ("bound", "warned", "outcome", "window"),
        [
            (0.6, 0.3, "warned", 40),
            (0.5, 0.3, "warned", 40),
            (0.3, 0.0, "failed", 40),
            (0.6, 0.0, "warned", 50),
        ],
    )
    def test_the_window_that_would_do_meets_the_bound_that_is_broken(
        self, judge, bound, warned, outcome, window
    ):
        """In a window of 30 two rows of four overflow, in one of 40 the last."""
        bounds = {"limits": {"max_overflow_ratio": bound}, "warn": {"max_overflow_ratio": warned}}
        rows = [(0, 10), (10, 10), (30, 10), (40, 10)]
        verdict = judge(rows, window={"target_context_len": 30, **bounds})["max_overflow_ratio"]
        assert verdict.outcome == outcome
        assert verdict.advice.startswith(f"a window of {window} would pass")

    def test_supervision_is_lost_by_both(self, limit):
        verdict = limit("min_kept_supervision_ratio", 0.9)
        assert (
            verdict.headline == "min_kept_supervision_ratio 62.5 % < 90 %  (2 of 4 samples lose supervision)"
        )
        # The worst first: row 3 feeds none of 40 tokens, row 2 all but 5.
        assert [row["id"] for row in verdict.witnesses] == ["r3", "r2"]

    def test_one_token_of_many_does_not_look_like_none(self, limit):
        # 25 of 26 tokens of the last row and 10 of each other one are kept: 99,995 of 99,996.
        verdict = limit("min_kept_supervision_ratio", 1.0, [(0, 10)] * 9_997 + [(0, 26)])
        assert verdict.headline.startswith("min_kept_supervision_ratio 99.999 % < 100 %  (1 of 9,998 sa")

    def test_five_rows_are_shown(self, limit):
        verdict = limit("max_overflow_ratio", 0.0, [(30 + place, 10) for place in range(7)])
        assert [row["id"] for row in verdict.witnesses] == ["r6", "r5", "r4", "r3", "r2"]
        assert verdict.more == 2

    def test_nothing_supervised_is_nothing_kept(self):
        plan = plan_window(WindowSamples.of([5], [0], [5], [5]), 9, WindowPolicy())
        evidence = SimpleNamespace(contract=SimpleNamespace(window=None), plan=plan)
        for name in ("min_kept_supervision_ratio", "min_kept_turn_ratio"):
            verdict = window_limit(name, evidence)
            assert verdict.outcome == "failed"
            assert verdict.headline == f"{name}: there is no supervised token to keep"

    def test_drawn_rows_cannot_decide_a_limit_near_their_value(self, limit):
        # 13 of the 39 rows that seed 0 draws do not fit: Wilson's interval is 20.6 % to 49 %.
        rows = ([(0, 10)] * 30 + [(40, 10)] * 10) * 10
        drawn = {"rows": 39, "seed": 0}
        for name, near, far in (
            ("max_overflow_ratio", 0.45, 0.6),
            ("max_truncated_ratio", 0.05, 0.2),
            ("min_kept_supervision_ratio", 0.6, 0.5),
        ):
            verdict = limit(name, near, rows, sample=drawn)
            assert verdict.outcome == "failed"
            assert "39 drawn rows cannot decide" in verdict.headline
            assert limit(name, far, rows, sample=drawn).outcome == "passed"

    def test_no_row_beside_the_drawn_ones_can_change_the_verdict(self, limit):
        """259 of 260 rows are drawn and fit: the last is 0.385 % of all; Wilson's interval ends at 1.46 %."""
        rows, drawn = [(0, 10)] * 260, {"rows": 259, "seed": 0}
        for name in ("max_overflow_ratio", "max_truncated_ratio"):
            assert limit(name, 0.005, rows, sample=drawn).outcome == "passed"
            verdict = limit(name, 0.003, rows, sample=drawn)
            assert verdict.headline == f"{name}: 259 drawn rows cannot decide the limit 0.3 %"
            assert verdict.context[1].endswith("between 0 % and 0.38 %")
            # 1.96² · 0.997 / 0.003 = 1,277 rows would decide it, were there as many.
            assert verdict.advice == "look at all rows (dataset.sample.rows), or leave dataset.sample out"

    @pytest.mark.parametrize("name", ["min_kept_supervision_ratio", "min_kept_turn_ratio"])
    def test_a_row_that_was_not_drawn_may_hold_any_number_of_tokens(self, limit, name):
        verdict = limit(name, 0.98, [(0, 10)] * 40, sample={"rows": 39, "seed": 0})
        # 39 / (39 + 1.96²), and n / (n + 1.96²) is 98 % at n = 188.2.
        assert verdict.context[1].endswith("between 91.03 % and 100 %")
        assert verdict.advice.startswith("look at all rows")
        assert limit(name, 0.9, [(0, 10)] * 40, sample={"rows": 39, "seed": 0}).outcome == "passed"

    def test_no_window_is_said_to_do_for_rows_that_were_not_drawn(self, limit):
        # One row of four overflows; row 21, which seed 0 leaves out, fits.
        verdict = limit("max_overflow_ratio", 0.2, ROWS * 10, sample={"rows": 39, "seed": 0})
        assert verdict.headline == "max_overflow_ratio 25.64 % > 20 %  (10 of 39 samples)"
        assert verdict.advice == (
            "widen the window, shorten the answers, or drop rows like the 10 listed by --longctx-report"
        )

    @pytest.mark.parametrize("name", ["min_kept_supervision_ratio", "min_kept_turn_ratio"])
    def test_drawn_rows_that_lose_nothing_do_not_tell_of_all(self, limit, name):
        # Every 20th row of 1,000 is all prompt; seed 2 draws none of them among 20 rows.
        rows, drawn = ([(40, 400)] + [(5, 10)] * 19) * 50, {"rows": 20, "seed": 2}
        verdict = limit(name, 0.9, rows, sample=drawn)
        assert verdict.headline == f"{name}: 20 drawn rows cannot decide the limit 90 %"
        # 20 / (20 + 1.96²) = 83.89 %, and n / (n + 1.96²) is 90 % at n = 34.6.
        assert verdict.context == (
            "100 % of what was drawn",
            "20 rows drawn; with 95 % confidence between 83.89 % and 100 %",
        )
        assert verdict.advice.startswith("draw about 35 rows")
        assert limit(name, 0.8, rows, sample=drawn).outcome == "passed"

    def test_drawn_rows_tell_of_supervised_tokens_or_of_turns(self, limit):
        # 30 rows fit, 10 keep 5 of 10 tokens and lose their turn. Of 39 rows, with one or the other left out:
        rows, drawn = [(0, 10)] * 30 + [(20, 10)] * 10, {"rows": 39, "seed": 0}
        verdict = limit("min_kept_supervision_ratio", 0.87, rows, sample=drawn)
        assert verdict.context[0] in ("87.18 % of what was drawn", "88.46 % of what was drawn")
        verdict = limit("min_kept_turn_ratio", 0.74, rows, sample=drawn)
        assert verdict.context[0] in ("74.36 % of what was drawn", "76.92 % of what was drawn")

    def test_no_sample_admitted_fails_the_policy(self, judge):
        window = {"target_context_len": 5}
        verdict = judge([(9, 1), (8, 2)], window=window)["policy"]
        assert (verdict.outcome, verdict.measured, verdict.limit, verdict.unit) == ("failed", 0, 1, "samples")
        assert verdict.headline == "policy: none of 2 samples is admitted"
        assert judge([(9, 1), (2, 2)], window=window)["policy"].outcome == "passed"


class TestPolicyOnTokens:
    """Samples of 4 tokens in a window of 3: template, template, then two supervised ones."""

    @staticmethod
    def evidence(kinds, change=None):
        samples = WindowSamples.of([4] * len(kinds), [2] * len(kinds), [2] * len(kinds), [4] * len(kinds))
        plan = plan_window(samples, 3, WindowPolicy(1, 1.0))
        if change:
            change(plan)

        class Ledger(list):
            ids = ("a", "b", "c")

        return SimpleNamespace(
            plan=plan,
            measured=SimpleNamespace(
                ledger=Ledger(range(len(kinds))),
                samples=[SimpleNamespace(kind=np.array(kind)) for kind in kinds],
            ),
        )

    SOUND = (TEMPLATE, TEMPLATE, SUPERVISED, SUPERVISED)

    def test_a_sound_plan(self):
        assert policy(self.evidence([self.SOUND] * 3)).outcome == "passed"

    def test_a_cut_that_keeps_another_number(self):
        found = policy(self.evidence([self.SOUND, (TEMPLATE, SUPERVISED, SUPERVISED, TEMPLATE), self.SOUND]))
        assert (found.outcome, found.measured) == ("failed", 1)
        assert found.witnesses == (
            {"id": "b", "expected": 1, "found": 2, "note": "supervised tokens before the cut"},
        )

    def test_a_decision_that_there_is_not(self):
        def change(plan):
            plan.decision[2] = 3

        found = policy(self.evidence([self.SOUND] * 3, change))
        assert found.headline == "policy: 1 × cut against the policy"
        assert found.witnesses == ({"id": "c", "expected": "fit, truncate or overflow", "found": 3},)
