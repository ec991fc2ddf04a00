from __future__ import annotations

import datetime as dt

import pytest

from pytest_longctx import waivers
from pytest_longctx.contract import Waiver, load_contract
from pytest_longctx.waivers import apply, in_force, judge, metric_problems, waiver_of, waiver_problems

LAST = dt.date(2027, 1, 31)
WAIVER = Waiver(check="window::max_overflow_ratio", until=LAST, reason="legacy shard", ticket="DATA-12")
RECORD = {
    "check": "window::max_overflow_ratio",
    "headline": "3 % > 1 %",
    "advice": "drop rows",
    "context": ["c"],
}
CHECKS = ["window::policy", "window::max_overflow_ratio", "lengths::max_tokens"]


@pytest.mark.parametrize(
    ("day", "outcome", "status"),
    [
        (dt.date(2026, 1, 1), "failed", "waived"),
        (LAST, "failed", "waived"),
        (dt.date(2027, 2, 1), "failed", "expired"),
        (LAST, "passed", "unneeded"),
        (LAST, "warned", "unneeded"),
        (LAST, "error", "not_judged"),
        (LAST, "skipped", "not_judged"),
        (dt.date(2027, 2, 1), "passed", "expired"),
    ],
)
def test_what_a_waiver_means(day, outcome, status):
    assert judge(outcome, WAIVER, day) == status
    assert in_force(WAIVER, day) == (status != "expired")


def test_the_day_is_counted_in_utc(monkeypatch):
    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            moment = dt.datetime(2027, 1, 31, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-5)))
            return moment.astimezone(tz)

    monkeypatch.setattr(waivers.dt, "datetime", Clock)
    assert waivers.utc_today() == dt.date(2027, 2, 1)


def test_a_waiver_is_of_one_check_exactly():
    assert waiver_of("window::max_overflow_ratio", [WAIVER]) is WAIVER
    assert waiver_of("window::max_overflow_ratio::chat", [WAIVER]) is None
    assert waiver_of("window::policy", [WAIVER]) is None


def test_a_waived_failure():
    record = apply({**RECORD, "outcome": "failed"}, [WAIVER], LAST)
    assert record["outcome"] == "waived"
    assert record["headline"] == RECORD["headline"]
    assert record["waiver"] == {
        "until": "2027-01-31",
        "reason": "legacy shard",
        "ticket": "DATA-12",
        "status": "waived",
    }


def test_an_unneeded_waiver_fails():
    record = apply({**RECORD, "outcome": "passed"}, [WAIVER], LAST)
    assert (record["outcome"], record["advice"]) == ("failed", "remove the waiver")
    assert record["headline"] == "max_overflow_ratio holds: its waiver is not needed"


def test_a_waiver_that_is_over_excuses_nothing_and_says_so():
    record = apply({**RECORD, "outcome": "failed"}, [WAIVER], dt.date(2027, 2, 1))
    assert record["outcome"] == "failed"
    assert record["context"] == [
        "c",
        "the waiver is over since the end of 2027-01-31 UTC: legacy shard (DATA-12)",
    ]


def test_no_waiver_excuses_an_error():
    assert apply({**RECORD, "outcome": "error"}, [WAIVER], LAST)["outcome"] == "error"


def test_other_checks_have_none():
    record = apply({**RECORD, "check": "window::policy", "outcome": "failed"}, [WAIVER], LAST)
    assert (record["outcome"], record["waiver"]) == ("failed", None)


@pytest.fixture
def contract(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def load(*checks, baseline=""):
        lines = [f"  - {{check: '{check}', until: 2027-01-31, reason: r}}" for check in checks]
        text = "\n".join(["contract: 1", "dataset: {path: d.jsonl, shape: lengths}", "waivers:", *lines])
        if not lines:
            text = text.removesuffix("waivers:") + baseline
        (tmp_path / "c.yaml").write_text(text + "\n")
        return load_contract("c.yaml")

    return load


def test_waivers_of_unknown_checks_are_refused(contract):
    known = "window::max_overflow_ratio"
    loaded = contract(known, "window::max_overflw_ratio", "packing::x", f"{known}::chat", known)
    assert list(map(str, waiver_problems(loaded, CHECKS))) == [
        "c.yaml:5:1: waivers.1.check: the contract has no check 'window::max_overflw_ratio'; "
        "did you mean 'window::max_overflow_ratio'?",
        "c.yaml:6:1: waivers.2.check: the contract has no check 'packing::x'; "
        "its checks: lengths::max_tokens, window::max_overflow_ratio, window::policy",
        "c.yaml:8:1: waivers.4.check: found 'window::max_overflow_ratio' again, expected each check once",
    ]


def test_metrics_of_unknown_checks_are_refused(contract):
    terms = "baseline:\n  max_regression:\n    window::max_overflow_ratio: 0\n    window::polcy: 0\n"
    loaded = contract(baseline=terms)
    assert [problem.line for problem in metric_problems(loaded, CHECKS)] == [6]
    assert list(metric_problems(contract(), CHECKS)) == []
