"""The verdicts that all sections share, on numbers small enough to judge by hand."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace

import pytest

from pytest_longctx.checks.check import (
    Check,
    both_limits,
    clip,
    limit_key,
    limit_names,
    limit_verdict,
    offence_verdict,
    unavailable,
    undecided,
    with_slices,
    witness_rows,
)
from pytest_longctx.checks.custom import custom_checks
from pytest_longctx.checks.findings import allowed_rows, finding, limit_place, second_look
from pytest_longctx.checks.slices import slice_check, slices
from pytest_longctx.contract import WindowLimits
from pytest_longctx.errors import LongctxError
from pytest_longctx.intervals import Interval, proportion
from pytest_longctx.tokens.second_look import SecondLook
from pytest_longctx.verdict import Verdict
from pytest_longctx.witness import Witness


def judged(measured, limit=None, warn=None, name="max_overflow_ratio", **shows):
    return limit_verdict(name, measured, "ratio", {"limit": limit, "warn": warn}, **shows)


class TestLimits:
    @pytest.mark.parametrize(
        ("measured", "outcome", "bound"),
        [(0.05, "passed", 0.2), (0.1, "passed", 0.2), (0.11, "warned", 0.1), (0.2, "warned", 0.1)],
    )
    def test_a_warning_below_the_limit(self, measured, outcome, bound):
        verdict = judged(measured, 0.2, 0.1)
        assert (verdict.outcome, verdict.limit, verdict.measured) == (outcome, bound, measured)

    def test_beyond_the_limit(self):
        verdict = judged(0.21, 0.2, 0.1, note="21 of 100 samples", advice="do", context=("c",), more=3)
        assert (verdict.outcome, verdict.limit, verdict.unit) == ("failed", 0.2, "ratio")
        assert verdict.headline == "max_overflow_ratio 21 % > 20 %  (21 of 100 samples)"
        assert (verdict.advice, verdict.context, verdict.more) == ("do", ("c",), 3)

    def test_a_lower_limit(self):
        name = "min_kept_turn_ratio"
        assert judged(0.9, 0.9, name=name).outcome == "passed"
        verdict = judged(0.89, 0.9, name=name)
        assert (verdict.outcome, verdict.headline) == ("failed", "min_kept_turn_ratio 89 % < 90 %")
        assert judged(0.95, 0.9, 0.97, name=name).outcome == "warned"

    def test_a_warning_alone(self):
        verdict = judged(0.1, None, 0.2)
        assert (verdict.outcome, verdict.limit) == ("passed", 0.2)
        assert verdict.headline == "max_overflow_ratio 10 %"
        assert judged(0.3, None, 0.2).outcome == "warned"

    @pytest.mark.parametrize("measured", [math.nan, math.inf, -math.inf])
    def test_what_is_no_number_fails(self, measured):
        verdict = judged(measured, 0.2, 0.1)
        assert (verdict.outcome, verdict.measured, verdict.limit) == ("failed", None, 0.2)

    def test_a_sample_that_decides(self):
        verdict = judged(0.0, 0.2, interval=proportion(0, 100))
        assert (verdict.outcome, verdict.context) == ("passed", ())

    def test_a_sample_that_cannot_decide(self):
        # Wilson: 1 of 10 lies between 1.79 % and 40.42 %.
        verdict = judged(0.1, 0.2, interval=proportion(1, 10))
        assert verdict.outcome == "failed"
        assert verdict.headline == "max_overflow_ratio: 10 drawn rows cannot decide the limit 20 %"
        assert verdict.context == (
            "10 % of what was drawn",
            "10 rows drawn; with 95 % confidence between 1.79 % and 40.42 %",
        )
        # 1.96² · 0.09 / 0.1² = 34.6
        assert verdict.advice == "draw about 35 rows (dataset.sample.rows), or leave dataset.sample out"
        assert judged(0.1, None, 0.2, interval=proportion(1, 10)).outcome == "warned"

    def test_a_sample_beyond_the_limit_tells_its_interval(self):
        verdict = judged(0.5, 0.2, interval=proportion(5, 10), context=("window 8",))
        assert verdict.outcome == "failed"
        assert verdict.context == (
            "window 8",
            "10 rows drawn; with 95 % confidence between 23.66 % and 76.34 %",
        )
        assert judged(0.5, 0.2, context=("window 8",)).context == ("window 8",)

    def test_no_sample_decides_a_value_on_its_limit(self):
        verdict = undecided("max", "warned", Interval(0.1, 0.0, 0.2, 1_000, 0.3), "10 %", None)
        assert (verdict.outcome, verdict.measured, verdict.unit) == ("warned", 0.1, "ratio")
        assert verdict.headline == "max: 1,000 drawn rows cannot decide the limit 10 %"
        assert verdict.advice == "look at all rows (dataset.sample.rows), or leave dataset.sample out"


class TestOffences:
    WITNESS = Witness("a", 1, 2, row=3)

    @pytest.mark.parametrize(
        ("count", "allowed", "outcome"),
        [(0, 0, "passed"), (2, 2, "passed"), (1, 2, "passed"), (int("999"), 999, "passed")],
    )
    def test_no_more_than_allowed(self, count, allowed, outcome):
        verdict = offence_verdict("roles", count, [], "roles out of order", "mend", allowed)
        assert verdict == Verdict(outcome, "roles holds", count, allowed, "offences")

    def test_more_than_allowed(self):
        verdict = offence_verdict("roles", 1_007, [self.WITNESS], "roles out of order", "mend", 3)
        assert (verdict.outcome, verdict.measured, verdict.limit) == ("failed", 1_007, 3)
        assert verdict.headline == "roles: 1,007 × roles out of order"
        assert verdict.witnesses == ({"id": "a", "row": 3, "expected": 1, "found": 2},)
        assert (verdict.more, verdict.unit, verdict.advice) == (1_006, "offences", "mend")
        assert offence_verdict("roles", 1, [self.WITNESS], "w", "a").more == 0

    def test_columns_that_a_witness_fills_are_shown_for_all(self):
        rows = witness_rows([Witness("a", 0, "", note="n"), Witness("b", None, 2, position=0)])
        assert rows == (
            {"id": "a", "position": None, "expected": 0, "found": "", "note": "n"},
            {"id": "b", "position": 0, "expected": None, "found": 2, "note": None},
        )
        assert witness_rows([]) == ()


def test_a_first_line_has_79_columns():
    assert clip("x" * 79) == "x" * 79
    assert clip("x" * 80) == "x" * 78 + "…"
    assert clip("abcdef", 4) == "abc…"


def test_what_is_required_fails_where_it_is_not_to_be_had():
    evidence = SimpleNamespace(settings=SimpleNamespace(required=("gpu",)))
    assert unavailable(evidence, "no trl", "trl") == Verdict("skipped", "no trl")
    verdict = unavailable(evidence, "no GPU", "sdpa", "gpu")
    assert (verdict.outcome, verdict.context) == ("failed", ("no GPU",))
    assert verdict.headline == "gpu is required and cannot run here"


class TestSlices:
    @staticmethod
    def check(section, *key, part=""):
        return Check(section, "name", key, "plan", lambda evidence: None, part=part)

    def test_a_limit_is_an_upper_one_unless_it_says_otherwise(self):
        assert self.check("window").least is False

    def test_limits_on_samples_are_judged_for_each_slice(self):
        checks = [
            self.check("window", "window"),
            self.check("window", "window", "limits", "max_overflow_ratio"),
            self.check("lengths", "lengths", "warn", "max_tokens"),
            self.check("packing", "packing", "limits", "min_utilization"),
            self.check("window", "window", "other", "limits"),
        ]
        found = with_slices(checks, {"web": "Web", "code": "Code"})
        assert [(check.id, check.slice) for check in found] == [
            ("window::name", None),
            ("window::name", None),
            ("window::name::web", "Web"),
            ("window::name::code", "Code"),
            ("lengths::name", None),
            ("lengths::name::web", "Web"),
            ("lengths::name::code", "Code"),
            ("packing::name", None),
            ("window::name", None),
        ]

    def test_a_check_looks_at_its_slice_and_at_what_it_needs(self):
        looked = []
        part = SimpleNamespace(plan="made", some_samples="some")
        evidence = SimpleNamespace(of_slice=lambda value: looked.append(value) or part)
        check = Check("window", "n", (), "plan", lambda evidence: evidence, slice="Web")
        assert check.run(evidence) is part
        assert looked == ["Web"]
        whole = SimpleNamespace(plan="made", some_samples="some")
        assert Check("window", "n", (), "plan", lambda evidence: evidence).run(whole) is whole

    @pytest.mark.parametrize(
        ("section", "name", "needs", "raises"),
        [
            ("window", "policy", "plan", True),
            ("dataset", "rows", "measured", False),
            ("dataset", "roles", "measured", True),
            ("dataset", "slices", "slice_counts", False),
            ("gpu", "finite", "gpu_record", False),
            ("curriculum", "cost_budget", "stages", False),
            ("tokenizer", "pinned", "tokenizer", False),
            ("custom", "mine", "dataset", False),
        ],
    )
    def test_what_looks_at_samples_needs_some(self, section, name, needs, raises):
        class Empty:
            def __getattr__(self, link):
                if link == "some_samples":
                    raise LookupError
                return link

        check = Check(section, name, (), needs, lambda evidence: "judged")
        if raises:
            with pytest.raises(LookupError):
                check.run(Empty())
        else:
            assert check.run(Empty()) == "judged"

    def test_small_slices_are_named(self):
        verdict = slices(SimpleNamespace(slice_counts=Counter(web=100, code=99, chat=7, wiki=5_000)))
        assert (verdict.outcome, verdict.measured, verdict.limit) == ("passed", 4, None)
        assert verdict.headline == "slices: 4; few rows: code 99, chat 7"
        assert "few rows: (empty) 1" in slices(SimpleNamespace(slice_counts=Counter([""]))).headline
        verdict = slices(SimpleNamespace(slice_counts=Counter()))
        assert (verdict.outcome, verdict.measured, verdict.limit, verdict.unit) == ("failed", 0, 1, "rows")
        assert slice_check().id == "dataset::slices"


class TestSections:
    SECTION = SimpleNamespace(
        limits=WindowLimits(max_overflow_ratio=0.0),
        warn=WindowLimits(max_overflow_ratio=0.5, min_kept_turn_ratio=0.9),
    )

    def test_limits_that_a_section_sets(self):
        assert limit_names(self.SECTION) == ["max_overflow_ratio", "min_kept_turn_ratio"]
        assert both_limits(self.SECTION, "max_overflow_ratio") == {"limit": 0.0, "warn": 0.5}
        assert limit_key("window", self.SECTION, "max_overflow_ratio") == (
            "window",
            "limits",
            "max_overflow_ratio",
        )
        assert limit_key("window", self.SECTION, "min_kept_turn_ratio")[1] == "warn"

    def test_rows_that_may_offend(self):
        limits = SimpleNamespace(control_tokens=2)
        evidence = SimpleNamespace(contract=SimpleNamespace(dataset=SimpleNamespace(limits=limits)))
        assert allowed_rows(evidence, "dataset", "control_tokens") == 2
        assert allowed_rows(evidence, "dataset", "roles") == 0
        assert allowed_rows(evidence, "supervision", "control_tokens") == 0
        assert limit_place("dataset", "control_tokens") == ("dataset", "limits", "control_tokens")
        assert limit_place("dataset", "roles") == ("dataset",)
        assert limit_place("supervision", "control_tokens") == ("supervision",)

    def test_findings_are_counted_and_five_are_shown(self):
        witnesses = [Witness(str(place), 0, 1) for place in range(8)]
        found = SimpleNamespace(counts={"supervision::turns": 9}, witnesses={"supervision::turns": witnesses})
        evidence = SimpleNamespace(measured=SimpleNamespace(findings=found))
        check = finding("supervision", "turns", "other turns", "compare")
        verdict = check.judge(evidence)
        assert (check.id, check.needs, check.key) == ("supervision::turns", "measured", ("supervision",))
        assert [witness["id"] for witness in verdict.witnesses] == ["0", "1", "2", "3", "4"]
        assert (verdict.outcome, verdict.more) == ("failed", 4)

    def test_rows_that_were_rendered_again(self):
        look = SecondLook(rows=1_000, offences=0, witnesses=[])
        assert second_look("offsets", look, "what", "advice").headline == (
            "offsets holds on 1,000 rows that were rendered again"
        )
        look = SecondLook(rows=9, offences=7, witnesses=[Witness(str(place), 0, 1) for place in range(7)])
        verdict = second_look("offsets", look, "offset that runs back", "advice", 6)
        assert (verdict.outcome, len(verdict.witnesses), verdict.more) == ("failed", 5, 2)
        assert verdict.headline == "offsets: 7 × offset that runs back"
        assert second_look("offsets", look, "what", "advice", 7).outcome == "passed"
        assert second_look("offsets", SecondLook(1, 1, []), "what", "advice").outcome == "failed"


class TestOwnChecks:
    @staticmethod
    def run(verdict):
        (check,) = custom_checks({"mine": lambda evidence: verdict})
        assert check.id == "custom::mine"
        return check.judge(None)

    @pytest.mark.parametrize("measured", [None, 0, -1.5])
    def test_a_verdict_is_taken(self, measured):
        verdict = Verdict("warned", "mine", measured)
        assert self.run(verdict) is verdict

    @pytest.mark.parametrize(
        ("verdict", "message"),
        [
            (None, "the check 'mine' gave NoneType, expected a Verdict"),
            (
                Verdict("ok", "mine"),
                "the check 'mine' gave the outcome 'ok', expected one of passed, warned, failed, skipped",
            ),
            (
                Verdict("passed", "mine", math.nan),
                "the check 'mine' measured nan, expected a finite number",
            ),
        ],
    )
    def test_anything_else_is_refused(self, verdict, message):
        with pytest.raises(LongctxError) as caught:
            self.run(verdict)
        assert str(caught.value) == message

    @pytest.mark.parametrize("name", ["Mine", "a-b", "a b", "", "mine\n"])
    def test_names_are_plain(self, name):
        with pytest.raises(LongctxError, match=r"has a name that is not of \[a-z0-9_\]"):
            custom_checks({name: None})
