from __future__ import annotations

import json

import pytest

from pytest_longctx.cli import main
from pytest_longctx.contract import load_contract
from pytest_longctx.diff import changes, contract_changes, report_changes
from pytest_longctx.errors import LongctxError

HEAD = "contract: 1\nname: {name}\ndataset: {{path: d.jsonl, shape: lengths}}\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        (tmp_path / name).write_text(HEAD.format(name=name[:3]) + text)
        return name

    return write


def window(limits="", terms="", rest=""):
    return f"window: {{target_context_len: 8{terms}, limits: {{{limits}}}}}\n{rest}"


CASES = [
    (window("max_overflow_ratio: 0.1"), window("max_overflow_ratio: 0.2"), "loosened"),
    (window("max_overflow_ratio: 0.2"), window("max_overflow_ratio: 0.1"), "tightened"),
    (window("min_kept_supervision_ratio: 0.9"), window("min_kept_supervision_ratio: 0.8"), "loosened"),
    (window("min_kept_supervision_ratio: 0.8"), window("min_kept_supervision_ratio: 0.9"), "tightened"),
    (
        window(terms=", max_supervision_loss_ratio: 0.1"),
        window(terms=", max_supervision_loss_ratio: 0.2"),
        "loosened",
    ),
    (
        window(terms=", min_kept_supervised_tokens: 4"),
        window(terms=", min_kept_supervised_tokens: 2"),
        "loosened",
    ),
    (window(), window().replace(": 8", ": 16"), "changed"),
    (
        window(rest="dataset.limits").replace("dataset.limits", ""),
        window(rest="supervision: {turns: last}\n"),
        "changed",
    ),
    (
        window("max_overflow_ratio: 0.1", rest='baseline: {max_regression: {"window::policy": 0.1}}'),
        window("max_overflow_ratio: 0.1", rest='baseline: {max_regression: {"window::policy": 0.2}}'),
        "loosened",
    ),
    (
        window("max_overflow_ratio: 0.1", rest='baseline: {max_regression: {"window::policy": 0.1}}'),
        window("max_overflow_ratio: 0.1"),
        "loosened",
    ),
    (
        window(rest='waivers: [{check: "window::policy", until: 2027-01-31, reason: r}]'),
        window(rest='waivers: [{check: "window::policy", until: 2027-02-28, reason: r}]'),
        "loosened",
    ),
    (window(), window(rest='waivers: [{check: "window::policy", until: 2027-01-31, reason: r}]'), "loosened"),
    (
        window(rest='waivers: [{check: "window::policy", until: 2027-01-31, reason: r}]'),
        window(),
        "tightened",
    ),
]


@pytest.mark.parametrize(("old", "new", "kind"), CASES)
def test_what_a_change_of_a_contract_means(write, old, new, kind):
    pair = [load_contract(write(name, text)) for name, text in (("old.yaml", old), ("new.yaml", new))]
    assert [change.kind for change in contract_changes(*pair)] == [kind]


def test_names_and_order_are_no_difference(write):
    text = window("max_overflow_ratio: 0.1, max_truncated_ratio: 0.1")
    other = window("max_truncated_ratio: 0.1, max_overflow_ratio: 0.1")
    assert changes(write("old.yaml", text), write("new.yaml", other)) == []


def test_a_dropped_limit_is_a_removed_check(write):
    dropped = changes(write("old.yaml", window("max_overflow_ratio: 0.1")), write("new.yaml", window()))
    assert list(map(str, dropped)) == [
        "removed   window::max_overflow_ratio: checked → not checked",
        "loosened  window.limits.max_overflow_ratio: 0.1 → none",
    ]


def test_a_dropped_section_is_told(write):
    found = changes(write("old.yaml", window()), write("new.yaml", ""))
    assert ("removed", "window::policy") in [(change.kind, change.where) for change in found]


def test_a_tightened_and_a_new_limit_come_last(write):
    found = changes(
        write("old.yaml", window("max_overflow_ratio: 0.1")),
        write("new.yaml", window("max_overflow_ratio: 0.2, max_truncated_ratio: 0.3")),
    )
    assert [change.kind for change in found] == ["loosened", "added", "tightened"]


def report(**checks):
    entry = {"path": "c.yaml", "checks": []}
    for name, (measured, limit, outcome) in checks.items():
        entry["checks"].append(
            {
                "check": f"window::{name}",
                "measured": measured,
                "limit": limit,
                "outcome": outcome,
                "unit": "ratio",
                "least": name.startswith("min_"),
            }
        )
    return {"report": 1, "contracts": [entry]}


@pytest.mark.parametrize(
    ("name", "old", "new", "kinds"),
    [
        ("max_a", (0.1, 0.2, "passed"), (0.1, 0.2, "passed"), []),
        ("max_a", (0.1, 0.2, "passed"), (0.3, 0.4, "passed"), ["loosened", "moved"]),
        ("max_a", (0.1, 0.2, "passed"), (0.3, 0.2, "failed"), ["changed", "moved"]),
        ("max_a", (0.1, 0.2, "passed"), (0.1, None, "passed"), ["loosened"]),
        ("max_a", (0.1, None, "passed"), (0.1, 0.2, "passed"), ["tightened"]),
        ("min_a", (0.9, 0.8, "passed"), (0.9, 0.7, "passed"), ["loosened"]),
        ("min_a", (0.9, 0.8, "passed"), (0.9, 0.85, "passed"), ["tightened"]),
    ],
)
def test_what_a_change_of_a_report_means(name, old, new, kinds):
    found = report_changes(report(**{name: old}), report(**{name: new}))
    assert [change.kind for change in found] == kinds


def test_checks_that_come_and_go():
    found = report_changes(report(max_a=(0, 1, "passed")), report(max_b=(0, 1, "passed")))
    assert list(map(str, found)) == [
        "removed   c.yaml::window::max_a: checked → not checked",
        "added     c.yaml::window::max_b: not checked → checked",
    ]


def test_two_of_a_kind(write):
    with pytest.raises(LongctxError, match="expected two of a kind"):
        changes("a.json", write("new.yaml", ""))


def test_the_command(write, tmp_path, capsys):
    old, new = (
        write("old.yaml", window("max_overflow_ratio: 0.1")),
        write("new.yaml", window("max_overflow_ratio: 0.2")),
    )
    assert main(["diff", old, new]) == 0
    assert main(["diff", old, new, "--fail-on", "loosened"]) == 1
    assert main(["diff", new, old, "--fail-on", "loosened"]) == 0
    assert main(["diff", old, old, "--fail-on", "loosened"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        *["loosened  window.limits.max_overflow_ratio: 0.1 → 0.2"] * 2,
        "tightened window.limits.max_overflow_ratio: 0.2 → 0.1",
        "no difference",
    ]


def test_the_command_says_what_it_cannot_read(tmp_path, capsys, write):
    (tmp_path / "r.json").write_text(json.dumps(report()))
    assert main(["diff", "absent.json", "r.json"]) == 1
    assert main(["diff", "absent.yaml", write("new.yaml", "")]) == 1
    assert capsys.readouterr().out == (
        "absent.json: the report cannot be read: No such file or directory\n"
        "absent.yaml:1:1: there is no such file\n"
    )
