from __future__ import annotations

import pytest

from pytest_longctx.report.summary import summary_lines


@pytest.fixture
def lines(record):
    def lines(*records, width=80, known=None):
        named = [(f"{each['contract']}::{each['check']}", each) for each in records]
        return list(summary_lines(named, width, known or {}))

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


def test_far_from_its_limit_leaves_the_columns_as_they_are(lines, record):
    far = {"unit": "number", "measured": 1.579, "limit": 1e-05}
    found = lines(
        record("isolation::far", "failed", headroom=-157883.19, **far),
        record("isolation::near", "failed", headroom=-9.99, **far),
    )
    assert [text for _, text in found[:3]] == [
        "check             measured      limit  headroom  verdict",
        "isolation::far       1.579      1e-05  < -999 %  failed",
        "isolation::near      1.579      1e-05    -999 %  failed",
    ]


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


GATES = [f"curriculum::g{number}::8k" for number in range(3)]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["passed"] * 3, ("passed", "stage 8k: advance")),
        (["passed", "warned", "passed"], ("passed", "stage 8k: advance")),
        (["passed"], ("", "stage 8k: not decided (1 of 3 gates ran)")),
        (["passed", "failed"], ("failed", "stage 8k: hold (g1)")),
        (["passed", "error", "skipped"], ("failed", "stage 8k: hold (g1, g2)")),
    ],
)
def test_a_stage_advances_by_all_of_its_gates(lines, record, outcomes, expected):
    records = [record(gate, outcome) for gate, outcome in zip(GATES, outcomes, strict=False)]
    known = {"c.yaml": [*GATES, "curriculum::g0::16k", "window::policy"]}
    assert [line for line in lines(*records, known=known) if "stage" in line[1]] == [expected]


def test_equal_stages_of_two_contracts_are_two(lines, record):
    gates = [
        record("curriculum::g0::8k", contract="a.yaml"),
        record("curriculum::g0::8k", "failed", contract="b.yaml"),
    ]
    known = {name: ["curriculum::g0::8k"] for name in ("a.yaml", "b.yaml")}
    assert [line for line in lines(*gates, known=known) if "stage" in line[1]] == [
        ("passed", "a.yaml: stage 8k: advance"),
        ("failed", "b.yaml: stage 8k: hold (g0)"),
    ]
