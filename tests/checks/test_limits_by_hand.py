"""The limits of sections `lengths` and `window` on a few rows of lengths alone."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from pytest_longctx.checks import checks_of
from pytest_longctx.checks.lengths import limit as lengths_limit
from pytest_longctx.checks.window import limit as window_limit
from pytest_longctx.checks.window import policy
from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence
from pytest_longctx.tokens.sample import SUPERVISED, TEMPLATE
from pytest_longctx.window import WindowPolicy, WindowSamples, plan_window

# Totals 10, 20, 30 and 40, each with 10 supervised tokens at its end.
ROWS = [(0, 10), (10, 10), (20, 10), (30, 10)]


@pytest.fixture
def judge(tmp_path):
    """The verdicts by check of a contract over rows of (prompt, supervised) tokens."""

    def judged(rows=ROWS, sample=None, **sections):
        lines = [
            json.dumps({"id": f"r{place}", "prompt_tokens": prompt, "supervised_tokens": supervised}) + "\n"
            for place, (prompt, supervised) in enumerate(rows)
        ]
        (tmp_path / "rows.jsonl").write_text("".join(lines))
        dataset = {
            "path": "rows.jsonl",
            "shape": "lengths",
            "id": "id",
            **({"sample": sample} if sample else {}),
        }
        path = tmp_path / "contract.yaml"
        path.write_text(yaml.safe_dump({"contract": 1, "dataset": dataset, **sections}))
        contract = load_contract(path)
        evidence = Evidence(contract)
        return {check.name: check.run(evidence) for check in checks_of(contract)}

    return judged


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
        drop = "drop the 1 rows listed by --longctx-report"
        assert verdict.advice == f"a window of 35 would pass; or {drop}"
        assert (
            limit("max_overflow_ratio", 0.2, kind="warn").advice
            == f"widen the window, shorten the answers, or {drop}"
        )

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
        found = judge(window={"target_context_len": 25, "limits": limits, **policy})
        assert found["max_overflow_ratio"].advice.startswith("a window of 35 would pass")
        assert found["max_truncated_ratio"].advice.startswith("widen the window")

    def test_supervision_is_lost_by_both(self, limit):
        verdict = limit("min_kept_supervision_ratio", 0.9)
        assert (
            verdict.headline == "min_kept_supervision_ratio 62.5 % < 90 %  (2 of 4 samples lose supervision)"
        )
        # The worst first: row 3 feeds none of 40 tokens, row 2 all but 5.
        assert [row["id"] for row in verdict.witnesses] == ["r3", "r2"]

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
        rows = [(0, 10)] * 30 + [(40, 10)] * 10
        drawn = {"rows": 39, "seed": 0}
        for name, near, far in (
            ("max_overflow_ratio", 0.3, 0.6),
            ("max_truncated_ratio", 0.05, 0.2),
            ("min_kept_supervision_ratio", 0.7, 0.5),
        ):
            verdict = limit(name, near, rows, sample=drawn)
            assert verdict.outcome == "failed"
            assert "39 drawn rows cannot decide" in verdict.headline
            assert limit(name, far, rows, sample=drawn).outcome == "passed"

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


class TestLengths:
    @pytest.fixture
    def limit(self, judge):
        def judged(name, value, rows=ROWS, kind="limits", sample=None):
            section = {"short_threshold": 10, "long_threshold": 30, kind: {name: value}}
            return judge(rows, sample, lengths=section)[name]

        return judged

    @pytest.mark.parametrize(
        ("name", "measured", "unit"),
        [
            ("max_tokens", 40, "tokens"),
            ("max_p50_tokens", 20, "tokens"),
            ("max_p95_tokens", 40, "tokens"),
            ("min_long_share", 0.25, "ratio"),
            ("max_long_share", 0.25, "ratio"),
            ("min_short_share", 0.25, "ratio"),
            ("max_short_share", 0.25, "ratio"),
        ],
    )
    def test_measured_by_hand(self, limit, name, measured, unit):
        verdict = limit(name, measured)
        assert (verdict.outcome, verdict.measured, verdict.unit) == ("passed", measured, unit)
        step = 1 if unit == "tokens" else 0.01
        beyond = measured + step if name.startswith("min_") else measured - step
        verdict = limit(name, beyond)
        assert verdict.outcome == "failed"
        assert verdict.headline.endswith("(4 samples)")
        assert limit(name, beyond, kind="warn").outcome == "warned"
        assert bool(verdict.witnesses) is (unit == "tokens")

    def test_percentiles_of_a_hundred_rows(self, limit):
        rows = [(0, 1 + place) for place in range(100)]
        assert limit("max_p50_tokens", 60, rows).measured == 50
        assert limit("max_p95_tokens", 99, rows).measured == 95

    def test_short_and_long_are_told_apart(self, limit):
        rows = [(0, 10), (0, 10), (0, 20), (0, 40)]
        assert limit("max_short_share", 0.5, rows).measured == 0.5
        assert limit("max_long_share", 0.5, rows).measured == 0.25

    @pytest.mark.parametrize(("name", "short", "share"), [("min", 9, 0.1), ("max", 19, 0.05)])
    def test_a_share_at_exactly_its_limit(self, limit, name, short, share):
        rows = [(0, 10)] * short + [(0, 40)]
        assert limit(f"{name}_long_share", share, rows).outcome == "passed"

    def test_the_longest_five_rows_are_shown(self, limit):
        verdict = limit("max_tokens", 3, [(0, 1 + place) for place in range(7)])
        assert verdict.witnesses == tuple(
            {"id": f"r{place}", "total": place + 1} for place in (6, 5, 4, 3, 2)
        )

    def test_no_sample(self):
        contract = SimpleNamespace(lengths=SimpleNamespace())
        evidence = SimpleNamespace(contract=contract, measured=SimpleNamespace(ledger=[]))
        verdict = lengths_limit("max_tokens", evidence)
        assert (verdict.outcome, verdict.headline) == ("failed", "max_tokens: there is no sample to measure")

    def test_drawn_rows_cannot_tell_of_the_longest_of_all(self, limit):
        rows = [(0, 10)] * 50
        verdict = limit("max_tokens", 10, rows, sample={"rows": 49, "seed": 0})
        assert verdict.outcome == "failed"
        assert verdict.headline == "max_tokens: 49 drawn rows cannot decide the limit 10 tokens"
        assert verdict.advice.startswith("draw about 50 rows")
        assert limit("max_tokens", 10, rows, "warn", {"rows": 49, "seed": 0}).outcome == "warned"
        assert limit("max_tokens", 10, rows, sample={"rows": 50, "seed": 0}).outcome == "passed"

    def test_drawn_rows_decide_percentiles_by_the_share_below(self, limit):
        # Of 49 rows all at most 10: the share of all rows lies above 92.7 %: enough for half, not for 95 %.
        rows, drawn = [(0, 10)] * 50, {"rows": 49, "seed": 0}
        assert limit("max_p50_tokens", 10, rows, sample=drawn).outcome == "passed"
        verdict = limit("max_p95_tokens", 10, rows, sample=drawn)
        assert verdict.headline == "max_p95_tokens: 49 drawn rows cannot decide the limit 10 tokens"
        # 1.96² · 0.95 · 0.05 / 0.05² = 73
        assert verdict.advice.startswith("draw about 73 rows")
        rows, drawn = [(0, 10)] * 100, {"rows": 99, "seed": 0}
        assert limit("max_p95_tokens", 10, rows, sample=drawn).outcome == "passed"
        assert limit("max_p95_tokens", 9, rows, sample=drawn).headline.startswith("max_p95_tokens 10 > 9")

    def test_drawn_rows_and_shares(self, limit):
        rows, drawn = [(0, 10)] * 20 + [(0, 40)] * 20, {"rows": 39, "seed": 0}
        assert "cannot decide" in limit("max_short_share", 0.55, rows, sample=drawn).headline
        assert limit("max_short_share", 0.8, rows, sample=drawn).outcome == "passed"
        assert "cannot decide" in limit("min_long_share", 0.45, rows, sample=drawn).headline
        assert limit("min_long_share", 0.2, rows, sample=drawn).outcome == "passed"
