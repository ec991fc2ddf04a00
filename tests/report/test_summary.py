from __future__ import annotations

import pytest

from pytest_longctx.report.summary import summary_lines


@pytest.fixture
def lines(record):
    def lines(*records, width=80):
        named = [(f"c.yaml::{each['check']}", each) for each in records]
        return list(summary_lines(named, width))

    return lines


def test_trouble_first_then_the_least_headroom(lines, record):
    found = lines(
        record("window::a", headroom=0.5),
        record("window::b", headroom=0.1),
        record("window::c", "failed", headroom=-1.0, measured=0.04),
        record("window::d", "warned", headroom=-0.5),
    )
    assert [text.split()[0] for _, text in found] == [
        *("check", "window::c", "window::d", "window::b", "window::a")
    ]
    assert found[1] == ("failed", "window::c        4 %        2 %    -100 %  failed")


def test_checks_that_only_count_offences_are_counted_when_they_pass(lines, record):
    quiet = {"unit": "offences", "measured": 0, "limit": 0}
    assert lines(record("dataset::roles", **quiet), record("window::a"))[-1] == ("", "1 more check passed")
    assert lines(record("a::b", **quiet), record("a::c", **quiet)) == [("", "2 checks passed")]


def test_a_cause_is_told_once_with_its_whole_first_line(lines, record):
    cause = f"no such template: {'word ' * 20}\ndo this instead"
    broken = [
        record(f"packing::c{n}", "error", headline="short…", error=cause, limit=None) for n in range(42)
    ]
    found = lines(*broken)
    assert {outcome for outcome, _ in found} == {"error"}
    assert [text for _, text in found] == [
        f"42 checks could not be judged: no such template: {'word ' * 5}word",
        f"  {'word ' * 13}word",
    ]


def test_at_most_three_causes(lines, record):
    broken = [
        record(f"a::c{n}", "error", error=f"cause {number}", limit=None)
        for number, times in enumerate((5, 4, 3, 2, 1))
        for n in range(times)
    ]
    texts = [text for _, text in lines(*broken)]
    assert texts[:3] == [
        f"{n} checks could not be judged: cause {place}" for place, n in enumerate((5, 4, 3))
    ]
    assert texts[-1] == "3 more checks could not be judged for other reasons"
