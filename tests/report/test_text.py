from __future__ import annotations

import pytest

from pytest_longctx.checks.check import Check
from pytest_longctx.report.record import given, line_of
from pytest_longctx.report.text import source_line, table, verdict_lines
from pytest_longctx.verdict import Verdict

COMMENTED = """\
# Two lines
# of comment
contract: 1
dataset: {path: d.jsonl, shape: lengths}
window:
  target_context_len: 8
  limits: {max_overflow_ratio: 0.25}
"""


def check(*key, name="x"):
    return Check(str(key[0]), name, key, "measured", lambda evidence: Verdict("passed", ""))


@pytest.fixture
def commented(write_contract):
    return write_contract(text=COMMENTED)


@pytest.mark.parametrize(
    ("key", "parts", "line", "words"),
    [
        (("window", "limits", "max_overflow_ratio"), 3, 7, "limits: {max_overflow_ratio: 0.25}"),
        (("window", "target_context_len"), 2, 6, "target_context_len: 8"),
        (("window",), 1, 5, "window:"),
        (
            ("dataset", "limits", "control_tokens"),
            1,
            4,
            "dataset:   (limits: {control_tokens: 0} by default)",
        ),
        (("supervision",), 0, 3, "no section supervision: its defaults hold"),
        (("supervision", "turns"), 0, 3, "no section supervision: its defaults hold"),
    ],
)
def test_where_the_contract_asks_for_a_check(commented, key, parts, line, words):
    assert given(commented, key) == parts
    assert line_of(check(*key), commented) == line
    assert source_line(commented, check(*key)) == words


def test_the_contracts_words_end_at_80_columns(write_contract):
    loaded = write_contract(text=COMMENTED.replace("d.jsonl", f"{'d' * 90}.jsonl"))
    lines = list(verdict_lines(check("dataset", "path"), Verdict("failed", "x: 1 > 0"), loaded))
    assert lines[1] == f"  c.yaml:4   path: {'d' * 60}…"
    assert len(lines[1]) == 80


def rows(file, count=2):
    return [
        {"id": f"{file}:{n}", "found": n, "note": "a remark of some greater length"}
        for n in range(9, 9 + count)
    ]


def test_a_file_that_all_ids_name_is_told_once_where_the_table_is_too_wide():
    file = "a_rather_long_name_of_a_file_of_chats.json"
    assert list(table(rows(file))) == [
        f"  ids are {file}:…",
        "  id    found  note",
        "  …:9       9  a remark of some greater length",
        "  …:10     10  a remark of some greater length",
    ]


def test_ids_stay_whole_where_there_is_room_or_more_than_one_file():
    assert list(table(rows("c.jsonl", 1))) == [
        "  id         found  note",
        "  c.jsonl:9      9  a remark of some greater length",
    ]
    mixed = [*rows("d" * 60, 1), *rows("e" * 60, 1)]
    assert [line for line in table(mixed) if "…" in line] == []
    assert [
        line for line in table([{"id": f"{'i' * 90}{n}", "note": "n"} for n in "ab"]) if "…" in line
    ] == []
