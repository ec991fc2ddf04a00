from __future__ import annotations

import re

import pytest

from pytest_longctx.report.github import MOST_ROWS, escape, step_summary, workflow_commands


def test_a_failure_at_its_line(report, failure):
    (command,) = workflow_commands(report(failure))
    assert command == (
        "::error file=c.yaml,line=13,title=window%3A%3Amax_overflow_ratio::"
        "max_overflow_ratio 50 %25 > 25 %25  (2 of 4 samples)%0A"
        "window 8 = template + prompt + supervised%0Adrop the 2 rows"
    )


def test_errors_before_warnings_and_nothing_for_the_others(report, record):
    made = report(
        record("window::a", "warned"),
        record("window::b", "error"),
        record("window::c"),
        record("window::d", "waived"),
    )
    assert [command.split(" ")[0] for command in workflow_commands(made)] == ["::error", "::warning"]


def test_paths_are_the_repositorys(report, failure, tmp_path):
    (tmp_path / "sub").mkdir()
    made = report({**failure, "contract": str(tmp_path / "sub" / "c.yaml")})
    assert "file=sub/c.yaml," in workflow_commands(made, str(tmp_path))[0]
    assert f"file={tmp_path}/sub/c.yaml," in workflow_commands(made, str(tmp_path / "sub" / "other"))[0]


def test_text_cannot_end_a_command_or_begin_one(report, failure):
    evil = "a,b:c\n::warning::x\r%0A\x1b[31m"
    (command,) = workflow_commands(
        report({**failure, "headline": evil, "check": evil, "contract": "a,b\n.yaml"})
    )
    assert not re.search(r"[\n\r\x1b]", command)
    head, _, _ = command.partition("::a,b")
    assert head.count(",") == 2  # between three properties
    assert "%250A" in command


@pytest.mark.parametrize(
    ("failures", "shown", "rest"), [(10, 10, None), (11, 9, "2 more"), (300, 9, "291 more")]
)
def test_at_most_ten(report, record, failures, shown, rest):
    made = report(*(record(f"window::c{number}", "failed") for number in range(failures)))
    commands = workflow_commands(made)
    assert len(commands) == 10
    assert sum("line=" in command for command in commands) == shown
    if rest:
        assert f"::{rest} stand in the step summary" in commands[-1]


def test_one_cause_is_one_annotation(report, record):
    broken = [
        record(f"packing::c{number}", "error", error="no file", headline="no file") for number in range(20)
    ]
    (command,) = workflow_commands(report(*broken))
    assert "packing::c0, packing::c1" in command


def test_notes_come_first(report, failure):
    first, second = workflow_commands(report(failure), notes=["it got worse"])
    assert first == "::error title=longctx::it got worse"
    assert "line=13" in second


def test_the_summary(report, failure, record):
    quiet = record("dataset::roles", measured=0, limit=0, unit="offences")
    text = step_summary(report(failure, record("lengths::max_tokens", unit="tokens", measured=9120), quiet))
    assert text.startswith("## ❌ longctx: 1 of 3 checks failed\n")
    assert "### sft-4k" in text
    assert "| ❌ | <code>window::max\\_overflow\\_ratio</code> | 50 % | 25 % | -100 % | failed |" in text
    assert "| ✅ | <code>lengths::max\\_tokens</code> | 9,120 | 0.02 | 50 % | passed |" in text
    assert "\n1 more check passed" in text
    assert "  and 3 more" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>" not in text
    assert "\x1b" not in text


def test_rows_of_the_table_have_six_cells(report, failure):
    text = step_summary(report({**failure, "check": "window::a|b\n|c"}))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert all(len(re.split(r"(?<!\\)\|", row)) == 8 for row in rows)


def test_notes_stand_in_the_summary(report, record):
    assert "- ❌ c.yaml::x: worse by 1 \\*" in step_summary(report(record()), ["c.yaml::x: worse by 1 *"])


def test_a_long_summary_is_bounded(report, failure):
    many = [
        {**failure, "check": f"window::c{number}", "context": ["x" * 5000]}
        for number in range(MOST_ROWS + 100)
    ]
    text = step_summary(report(*many))
    assert len(text.encode()) < 1 << 20
    assert "100 further lines are in the JSON report" in text
    assert text.endswith("…cut here: the JSON report has the rest\n")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("a_b*", "a\\_b\\*"), ("<&>", "&lt;&amp;&gt;"), ("[x](y)", "\\[x\\]\\(y\\)"), ("a\nb", "a�b")],
)
def test_escapes(text, escaped):
    assert escape(text) == escaped
