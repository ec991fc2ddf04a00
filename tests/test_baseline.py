from __future__ import annotations

import pytest

from pytest_longctx.baseline import compare, slim, unusable

CHECK = "window::max_overflow_ratio"


def entry(path="c.yaml", bounds=None, **measured):
    """A contract's entry of a report; keywords are measured values of `window::max_…` or `window::min_…`."""
    checks = [
        {
            "check": f"window::{name}",
            "measured": value,
            "unit": "ratio",
            "least": name.startswith("min_"),
            "error": None,
        }
        for name, value in measured.items()
    ]
    return {"path": path, "max_regression": bounds or {}, "checks": checks}


def report(*entries):
    return {"contracts": list(entries), "complete": True}


def told(before, after, known=None):
    known = {"c.yaml": [record["check"] for record in after["checks"]]} if known is None else known
    return [(move.kind, move.fails) for move in compare(report(before), report(after), known)]


@pytest.mark.parametrize(
    ("name", "old", "new", "bound", "kinds"),
    [
        ("max_overflow_ratio", 0.010, 0.012, 0.002, []),  # 0.012 - 0.010 is 0.002 and a little more in binary
        ("max_overflow_ratio", 0.010, 0.0121, 0.002, [("worse", True)]),
        ("max_overflow_ratio", 0.010, 0.008, 0.002, []),
        ("max_overflow_ratio", 0.010, 0.0079, 0.002, [("better", False)]),
        ("max_overflow_ratio", 0.0, 0.0, 0.0, []),
        ("max_overflow_ratio", 0.0, 1e-6, 0.0, [("worse", True)]),
        ("min_kept_supervision_ratio", 0.95, 0.94, 0.01, []),
        ("min_kept_supervision_ratio", 0.95, 0.93, 0.01, [("worse", True)]),
        ("min_kept_supervision_ratio", 0.95, 0.97, 0.01, [("better", False)]),
    ],
)
def test_both_ways(name, old, new, bound, kinds):
    bounds = {f"window::{name}": bound}
    assert told(entry(**{name: old}), entry(bounds=bounds, **{name: new})) == kinds


def test_metrics_without_a_bound_may_move():
    assert told(entry(max_overflow_ratio=0.0), entry(max_overflow_ratio=1.0)) == []


def test_what_is_said():
    (worse,) = compare(
        report(entry(max_overflow_ratio=0.01)),
        report(entry(bounds={CHECK: 0.002}, max_overflow_ratio=0.034)),
        {"c.yaml": [CHECK]},
    )
    assert str(worse) == (
        "c.yaml::window::max_overflow_ratio: 1 % → 3.4 %, worse by 2.4 points; "
        "max_regression allows 0.2 points"
    )


def test_a_vanished_check_fails():
    assert told(entry(max_a=0.0, max_b=0.0), entry(max_a=0.0)) == [("vanished", True)]


def test_a_check_that_was_not_chosen_has_not_vanished():
    known = {"c.yaml": ["window::max_a", "window::max_b"]}
    assert told(entry(max_a=0.0, max_b=0.0), entry(max_a=0.0), known) == []


def test_a_slice_vanishes_unless_its_check_was_not_chosen():
    before = entry(max_a=0.0, **{"max_a::code": 0.0})
    assert told(before, entry(max_a=0.0)) == [("vanished", True)]
    assert told(before, entry(max_b=0.0), {"c.yaml": ["window::max_a", "window::max_b"]}) == []


def test_a_vanished_contract_fails_and_a_new_one_is_told():
    moves = compare(report(entry("old.yaml")), report(entry("new.yaml")), {})
    assert [(move.contract, move.kind) for move in moves] == [("old.yaml", "vanished"), ("new.yaml", "new")]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ({}, {"max_overflow_ratio": 0.1}, "new"),
        ({"max_overflow_ratio": None}, {"max_overflow_ratio": 0.1}, "new"),
        ({"max_overflow_ratio": 0.1}, {"max_overflow_ratio": None}, "not_measured"),
        ({"max_overflow_ratio": 0.1}, {}, "not_measured"),
    ],
)
def test_what_cannot_be_compared_is_told(before, after, kind):
    assert told(entry(**before), entry(bounds={CHECK: 0.1}, **after), {"c.yaml": [CHECK]}) == [(kind, False)]


def test_failures_come_first():
    bounds = {"window::max_a": 0.0, "window::max_b": 0.0}
    kinds = told(entry(max_a=1.0, max_b=0.0), entry(bounds=bounds, max_a=0.0, max_b=1.0))
    assert kinds == [("worse", True), ("better", False)]


def test_a_slim_report_changes_only_with_the_values():
    full = {**entry(max_a=0.1), "evidence": {"ledger": {"rows": 1}}}
    full["checks"][0] |= {"witnesses": [{"id": "x"}], "advice": "a", "more": 3, "context": ["c"]}
    (kept,) = slim(report(full))["contracts"]
    assert kept["evidence"] == {"ledger": None}
    assert (kept["checks"][0]["witnesses"], kept["checks"][0]["measured"]) == ([], 0.1)
    assert full["evidence"]["ledger"] == {"rows": 1}


def test_reports_that_are_no_baseline():
    known = {"c.yaml": ["window::max_a"]}
    assert unusable(report(entry(max_a=0.1)), known) == ""
    assert "no check ran" in unusable(report(), {})
    assert "stopped" in unusable({**report(entry(max_a=0.1)), "complete": False}, known)
    broken = entry(max_a=0.1)
    broken["checks"][0]["error"] = "no file"
    assert "renewed: 1 check could not be judged, first window::max_a" in unusable(report(broken), known)


@pytest.mark.parametrize(("ran", "left_out"), [({}, "2 checks"), ({"max_a": 0.1}, "1 check")])
def test_a_part_of_the_checks_is_no_baseline(ran, left_out):
    known = {"c.yaml": ["window::max_b", "window::max_a"]}
    assert unusable(report(entry(**ran)), known) == (
        f"the baseline was not renewed: {left_out} did not run, first window::max_b; "
        "renew it by a run of all checks"
    )


def test_a_contract_that_was_not_collected_is_not_compared():
    after = entry(bounds={CHECK: 0.1})
    after["checks"] = [{"check": "contract::collection", "measured": None}]
    assert told(entry(max_overflow_ratio=0.1), after, {}) == [("not_measured", False)]
