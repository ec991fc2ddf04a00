"""`--longctx-show`: one sample, token by token."""

from __future__ import annotations

import pytest

CONTRACT = "--longctx-contract=contracts/sft.yaml"


def test_a_row_is_shown_by_span_and_label(pytester, project):
    """The answer and its end of turn are supervised, the newline behind them is not."""
    project(packing=None)
    result = pytester.runpytest(CONTRACT, "--longctx-show=chat-4")
    assert result.ret == 0
    lines = [line.split(maxsplit=3) for line in result.outlines[1:]]
    assert result.outlines[0].startswith("row chat-4: ")
    assert [line[2] for line in lines] == [
        "template",
        "prompt",
        "template",
        "answer",
        "supervised",
        "template",
    ]
    assert lines[1][3] == "What is 4 and 4?"
    assert lines[3][3] == "It is 8."
    assert lines[4][3] == "<|im_end|>"
    assert sum(int(line[1]) for line in lines) == int(result.outlines[0].split()[2])


def test_colour_only_when_asked_for(pytester, project):
    project(packing=None)
    assert "\x1b[" not in pytester.runpytest(CONTRACT, "--longctx-show=chat-4").stdout.str()
    coloured = pytester.runpytest(CONTRACT, "--longctx-show=chat-4", "--color=yes").stdout.str()
    assert "\x1b[32mIt is 8.\x1b[0m" in coloured


def test_text_cannot_steer_the_terminal(pytester, project, rows):
    rows[4]["messages"][1]["content"] = "\x1b[2J gone"
    project(packing=None)
    assert "\x1b" not in pytester.runpytest(CONTRACT, "--longctx-show=chat-4").stdout.str()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((CONTRACT, "--longctx-show=nobody"), "there is no row 'nobody'"),
        (("--longctx-show=chat-4",), "--longctx-show needs exactly one --longctx-contract"),
    ],
)
def test_what_cannot_be_shown(pytester, project, args, said):
    project(packing=None)
    result = pytester.runpytest(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{said}*"])


def test_other_output_never_holds_row_text(pytester, project, rows):
    """A row that offends against many checks is named, never quoted."""
    rows[4]["messages"][1]["content"] = "xyzzy-secret " * 30
    rows[5]["messages"].append({"role": "user", "content": "xyzzy-secret"})
    window = {"target_context_len": 24, "limits": {"max_overflow_ratio": 0.0}}
    project(window=window)
    result = pytester.runpytest(CONTRACT)
    assert result.ret == 1
    assert "xyzzy" not in result.stdout.str()
