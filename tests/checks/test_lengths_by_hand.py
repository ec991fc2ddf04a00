"""Section `lengths` on a few rows of lengths alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_longctx.checks.lengths import limit as lengths_limit

# Totals 10, 20, 30 and 40.
ROWS = [(0, 10), (10, 10), (20, 10), (30, 10)]


@pytest.fixture
def limit(judge):
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
def test_measured_by_hand(limit, name, measured, unit):
    verdict = limit(name, measured)
    assert (verdict.outcome, verdict.measured, verdict.unit) == ("passed", measured, unit)
    step = 1 if unit == "tokens" else 0.01
    beyond = measured + step if name.startswith("min_") else measured - step
    verdict = limit(name, beyond)
    assert verdict.outcome == "failed"
    assert verdict.headline.endswith("(4 samples)")
    assert limit(name, beyond, kind="warn").outcome == "warned"
    assert bool(verdict.witnesses) is (unit == "tokens")


def test_percentiles_of_a_hundred_rows(limit):
    rows = [(0, 1 + place) for place in range(100)]
    assert limit("max_p50_tokens", 60, rows).measured == 50
    assert limit("max_p95_tokens", 99, rows).measured == 95


def test_short_and_long_are_told_apart(limit):
    rows = [(0, 10), (0, 10), (0, 20), (0, 40)]
    assert limit("max_short_share", 0.5, rows).measured == 0.5
    assert limit("max_long_share", 0.5, rows).measured == 0.25


@pytest.mark.parametrize(("name", "short", "share"), [("min", 9, 0.1), ("max", 19, 0.05)])
def test_a_share_at_exactly_its_limit(limit, name, short, share):
    rows = [(0, 10)] * short + [(0, 40)]
    assert limit(f"{name}_long_share", share, rows).outcome == "passed"


def test_the_longest_five_rows_are_shown(limit):
    verdict = limit("max_tokens", 3, [(0, 1 + place) for place in range(7)])
    assert verdict.witnesses == tuple({"id": f"r{place}", "total": place + 1} for place in (6, 5, 4, 3, 2))


def test_no_sample():
    contract = SimpleNamespace(lengths=SimpleNamespace())
    evidence = SimpleNamespace(contract=contract, measured=SimpleNamespace(ledger=[]))
    verdict = lengths_limit("max_tokens", evidence)
    assert (verdict.outcome, verdict.headline) == ("failed", "max_tokens: there is no sample to measure")


def test_drawn_rows_cannot_tell_of_the_longest_of_all(limit):
    rows = [(0, 10)] * 50
    verdict = limit("max_tokens", 10, rows, sample={"rows": 48, "seed": 0})
    assert verdict.outcome == "failed"
    assert verdict.headline == "max_tokens: 48 drawn rows cannot decide the limit 10 tokens"
    assert verdict.advice == "look at all rows (dataset.sample.rows), or leave dataset.sample out"
    assert limit("max_tokens", 10, rows, "warn", {"rows": 49, "seed": 0}).outcome == "warned"
    assert limit("max_tokens", 10, rows, sample={"rows": 50, "seed": 0}).outcome == "passed"


def test_drawn_rows_decide_percentiles_by_the_share_below(limit):
    # Of 49 rows all at most 10: the share of all rows lies above 92.7 %: enough for half, not for 95 %.
    rows, drawn = [(0, 10)] * 100, {"rows": 49, "seed": 0}
    assert limit("max_p50_tokens", 10, rows, sample=drawn).outcome == "passed"
    verdict = limit("max_p95_tokens", 10, rows, sample=drawn)
    assert verdict.headline == "max_p95_tokens: 49 drawn rows cannot decide the limit 10 tokens"
    # 1.96² · 0.95 · 0.05 / 0.05² = 73
    assert verdict.advice.startswith("draw about 73 rows")
    rows, drawn = [(0, 10)] * 100, {"rows": 99, "seed": 0}
    assert limit("max_p95_tokens", 10, rows, sample=drawn).outcome == "passed"
    assert limit("max_p95_tokens", 9, rows, sample=drawn).headline.startswith("max_p95_tokens 10 > 9")


def test_a_percentile_that_no_row_beside_the_drawn_ones_can_change(limit):
    """Of 20 rows 19 are 95 %: the last may have any length. Of 21 rows 19 are 90.5 %."""
    drawn = {"rows": 19, "seed": 0}
    assert limit("max_p95_tokens", 10, [(0, 10)] * 20, sample=drawn).outcome == "passed"
    verdict = limit("max_p95_tokens", 10, [(0, 10)] * 21, sample=drawn)
    assert verdict.context[1] == "19 rows drawn; with 95 % confidence between 90.48 % and 100 %"
    # 73 rows would decide it, were there as many.
    assert verdict.advice == "look at all rows (dataset.sample.rows), or leave dataset.sample out"


def test_drawn_rows_and_shares(limit):
    # 21 of 40 rows, as seed 0 draws them: Wilson's interval is 37.5 % to 67.1 %.
    rows, drawn = [(0, 10)] * 40 + [(0, 40)] * 40, {"rows": 40, "seed": 0}
    assert "cannot decide" in limit("max_short_share", 0.55, rows, sample=drawn).headline
    assert limit("max_short_share", 0.8, rows, sample=drawn).outcome == "passed"
    assert "cannot decide" in limit("min_long_share", 0.45, rows, sample=drawn).headline
    assert limit("min_long_share", 0.2, rows, sample=drawn).outcome == "passed"


def test_shares_that_no_row_beside_the_drawn_ones_can_change(limit):
    # Seed 0 leaves out a long one of 40 rows: 20 or 21 of all may be short, and 19 or 20 long.
    rows, drawn = [(0, 10)] * 20 + [(0, 40)] * 20, {"rows": 39, "seed": 0}
    assert limit("max_short_share", 0.525, rows, sample=drawn).outcome == "passed"
    assert "cannot decide" in limit("max_short_share", 0.52, rows, sample=drawn).headline
    assert limit("min_long_share", 0.475, rows, sample=drawn).outcome == "passed"
    assert "cannot decide" in limit("min_long_share", 0.48, rows, sample=drawn).headline


def test_drawn_rows_and_a_median_near_its_limit(limit):
    # Of 60 rows 31 are at most 10 tokens: a share of 39 % to 64 % of all rows, where half are wanted.
    rows, drawn = [(0, 10)] * 31 + [(0, 40)] * 30, {"rows": 60, "seed": 0}
    verdict = limit("max_p50_tokens", 10, rows, sample=drawn)
    assert verdict.headline == "max_p50_tokens: 60 drawn rows cannot decide the limit 10 tokens"


def test_a_warning_stays_one_where_drawn_rows_cannot_decide_the_limit(judge):
    rows = [(0, 10)] * 50
    lengths = {"short_threshold": 10, "long_threshold": 30}
    lengths |= {"limits": {"max_p95_tokens": 11}, "warn": {"max_p95_tokens": 9}}
    verdict = judge(rows, {"rows": 49, "seed": 0}, lengths=lengths)["max_p95_tokens"]
    assert (verdict.outcome, verdict.limit) == ("warned", 9)


def test_more_long_rows_than_others(limit):
    assert limit("min_long_share", 0.75, [(0, 10), *[(0, 40)] * 3]).measured == 0.75
