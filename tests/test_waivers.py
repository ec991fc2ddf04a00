from __future__ import annotations

import datetime as dt

import pytest

from pytest_longctx import waivers
from pytest_longctx.contract import Waiver, load_contract
from pytest_longctx.waivers import (
    apply,
    in_force,
    judge,
    metric_problems,
    not_covered,
    slice_problems,
    waiver_of,
    waiver_problems,
)

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


SLICE = Waiver(check="window::max_overflow_ratio::code", until=LAST, reason="r")


def test_a_waiver_of_the_check_leaves_its_slices_and_says_so():
    record = apply({**RECORD, "check": SLICE.check, "outcome": "failed"}, [WAIVER], LAST)
    assert (record["outcome"], record["waiver"]) == ("failed", None)
    assert record["context"] == [
        "c",
        "the waiver of window::max_overflow_ratio covers all rows together, not a slice: that takes one of "
        "its own",
    ]


def test_a_waiver_of_a_slice_leaves_the_check_and_says_so():
    record = apply({**RECORD, "outcome": "failed"}, [SLICE], LAST)
    assert record["outcome"] == "failed"
    assert record["context"][1:] == [
        "the waiver of window::max_overflow_ratio::code covers that slice alone, not all rows together"
    ]
    assert apply({**RECORD, "check": SLICE.check, "outcome": "failed"}, [SLICE], LAST)["outcome"] == "waived"


def test_nothing_is_said_where_each_has_its_own_waiver_or_none():
    assert {not_covered(waiver.check, [WAIVER, SLICE]) for waiver in (WAIVER, SLICE)} == {""}
    assert not_covered("window::policy", [WAIVER, SLICE]) == ""
    assert not_covered("window::max_overflow_ratio::chat", [SLICE]) == ""  # another slice
    assert apply({**RECORD, "outcome": "passed"}, [SLICE], LAST)["context"] == ["c"]


@pytest.fixture
def contract(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def load(*checks, baseline="", dataset="dataset: {path: d.jsonl, shape: lengths, slices: source}"):
        lines = [f"  - {{check: '{check}', until: 2027-01-31, reason: r}}" for check in checks]
        window = "window: {target_context_len: 8, limits: {max_overflow_ratio: 0.1}}"
        text = "\n".join(["contract: 1", dataset, window, "waivers:", *lines])
        if not lines:
            text = text.removesuffix("waivers:") + baseline
        (tmp_path / "c.yaml").write_text(text + "\n")
        return load_contract("c.yaml")

    return load


NAME = "window::max_overflow_ratio"
FORM = f" (one slice of a limit: '{NAME}::SLICE')"


def told(problems):
    """Line and message of each problem, without the place in words."""
    return [(problem.line, problem.message) for problem in problems]


def test_waivers_of_unknown_checks_are_refused(contract):
    loaded = contract(NAME, "window::max_overflw_ratio", "packing::x", f"{NAME}::chat", NAME)
    assert told(waiver_problems(loaded, CHECKS)) == [
        (6, f"the contract has no check 'window::max_overflw_ratio'; did you mean '{NAME}'?{FORM}"),
        (
            7,
            "the contract has no check 'packing::x'; its checks: lengths::max_tokens, "
            f"window::max_overflow_ratio, window::policy{FORM}",
        ),
        (9, f"found '{NAME}' again, expected each check once"),
    ]


def test_without_slices_no_waiver_names_one(contract):
    loaded = contract(f"{NAME}::chat", "window::x", dataset="dataset: {path: d.jsonl, shape: lengths}")
    of_slice, unknown = told(waiver_problems(loaded, CHECKS))
    assert of_slice == (
        5,
        f"'{NAME}::chat' is of a slice, but the contract has no dataset.slices; the check is '{NAME}'",
    )
    assert "SLICE" not in unknown[1]


def test_checks_without_slices_are_told_from_limits(contract):
    assert told(waiver_problems(contract("window::policy::chat"), CHECKS)) == [
        (5, "'window::policy' has no slices, only limits of lengths and window have: name the check alone")
    ]


def test_parts_that_the_contract_has_are_no_slices(contract):
    checks = [*CHECKS, "isolation::logits::sdpa"]
    assert told(waiver_problems(contract("isolation::logits::sdpa"), checks)) == []
    ((_, message),) = told(waiver_problems(contract("isolation::logits::spda"), checks))
    assert "did you mean 'isolation::logits::sdpa'?" in message


def test_metrics_of_unknown_checks_are_refused(contract):
    terms = "baseline:\n  max_regression:\n    window::max_overflow_ratio: 0\n    window::polcy: 0\n"
    loaded = contract(baseline=terms)
    assert [problem.line for problem in metric_problems(loaded, CHECKS)] == [7]
    assert list(metric_problems(contract(), CHECKS)) == []


def test_slices_that_the_rows_do_not_have(contract):
    loaded = contract(f"{NAME}::chat", f"{NAME}::chta", f"{NAME}::x", NAME)
    assert told(slice_problems(loaded, CHECKS, ["chat", "code"])) == [
        (6, "the rows have no slice 'chta'; did you mean 'chat'?"),
        (7, "the rows have no slice 'x'; they have chat, code"),
    ]
    assert told(slice_problems(loaded, CHECKS, [])) == []  # the rows could not be read
    metric = contract(baseline=f"baseline: {{max_regression: {{'{NAME}::x': 0}}}}\n")
    assert [line for line, _ in told(slice_problems(metric, CHECKS, ["chat"]))] == [4]
