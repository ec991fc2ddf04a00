"""Ids, texts and names of a stranger are shown, and steer neither terminal, GitHub nor browser."""

from __future__ import annotations

import json
import re

import datasets  # noqa: F401 - runs in this process would import it anew, which its types do not bear
import pytest

from tests.plugin.conftest import project, rows, write_rows  # noqa: F401

ESCAPE = "\x1b]0;title\x07\x1b[2J\x1b[31m"
COMMAND = "\n::error file=x.py,line=1::injected\n::set-output name=a::b\r::add-mask::x"
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>"
RIGHT_TO_LEFT = "\u202egnp.exe\u2066"
HOSTILE = ESCAPE + COMMAND + MARKUP + RIGHT_TO_LEFT + "|`*_[x](javascript:alert(1))@everyone"


@pytest.fixture
def shown(pytester, rows, project, monkeypatch):  # noqa: F811
    """All that a failing run writes for rows with hostile ids, texts, keys, roles and slices."""
    for row in rows:
        row["uid"] += HOSTILE
        row["source"] = HOSTILE
        row["messages"][0]["content"] += HOSTILE + "<|im_end|>"
        row["messages"][0][HOSTILE] = HOSTILE
    rows[3]["messages"][1]["role"] = HOSTILE
    rows[4] = {"uid": "x" + HOSTILE, HOSTILE: 1}
    data = {
        "path": str(pytester.path / "data" / "chats.jsonl"),
        "id": "uid",
        "slices": "source",
        "shape": "messages",
    }
    window = {"target_context_len": 8, "limits": {"max_overflow_ratio": 0.0}}
    project(name="sft", dataset=data, window=window, packing=None, description=HOSTILE.replace("\r", ""))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    options = ("--longctx-report=r.json", "--longctx-html=r.html", "--longctx-ledger=r.parquet", "--color=no")
    result = pytester.runpytest("--longctx-contract=contracts/sft.yaml", "-v", *options)
    assert result.ret == 1, result.stdout.str()
    return result


def test_hostile_ids_are_shown_and_do_nothing(pytester, shown):
    terminal = shown.stdout.str() + shown.stderr.str()
    assert "INTERNALERROR" not in terminal
    assert "chat-0" in terminal
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", terminal)
    commands = [line for line in terminal.splitlines() if line.lstrip().startswith("::")]
    assert commands
    assert [
        line
        for line in commands
        if not re.match(r"::(error|warning) (file=contracts/sft\.yaml|title=)", line)
    ] == []
    assert not any(line.lstrip().startswith("##[") for line in terminal.splitlines())

    html = (pytester.path / "r.html").read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "\x1b" not in html
    assert "\u202e" not in html

    summary = (pytester.path / "summary.md").read_text(encoding="utf-8")
    assert "<script" not in summary
    assert "<img" not in summary
    assert "\x1b" not in summary
    outside = re.sub(r"<pre>.*?</pre>", "", summary, flags=re.DOTALL)
    assert "](javascript:" not in outside
    assert not [line for line in summary.splitlines() if line.lstrip().startswith("::")]

    report = json.loads((pytester.path / "r.json").read_bytes())
    ids = [witness.get("id") for check in report["contracts"][0]["checks"] for witness in check["witnesses"]]
    assert any(HOSTILE in str(name) for name in ids), "the report for machines keeps ids as they are"


def test_show_prints_no_control_characters(pytester, rows, project):  # noqa: F811
    rows[0]["uid"] = "plain"
    rows[0]["messages"][0]["content"] = HOSTILE
    project(packing=None)
    result = pytester.runpytest("--longctx-contract=contracts/sft.yaml", "--longctx-show=plain", "--color=no")
    assert result.ret == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", result.stdout.str())


@pytest.mark.parametrize("name", ["<b>", "a b", "ü", "&quot;|`"])
def test_odd_names_of_contracts(pytester, project, name):  # noqa: F811
    project(name=name, window={"target_context_len": 8, "limits": {"max_overflow_ratio": 0.0}}, packing=None)
    result = pytester.runpytest(f"--longctx-contract=contracts/{name}.yaml", "-k", "ratio", "-q")
    assert result.ret == 1, (result.stdout.str(), result.stderr.str())
    assert f"contracts/{name}.yaml" in result.stdout.str()


@pytest.mark.parametrize("name", ["evil\x1b[2J", "a\n::error::x", "a::b", "a[b]", "\u202egpj"])
def test_names_that_no_contract_may_have(pytester, project, name):  # noqa: F811
    project(name=name, packing=None)
    result = pytester.runpytest(f"--longctx-contract=contracts/{name}.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stdout.str() + result.stderr.str()
    assert "a contract's path holds no control characters, no :: and no [: rename it" in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)
    assert not [line for line in text.splitlines() if line.startswith("::")]
