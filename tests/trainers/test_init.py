"""The trainer that `longctx init` proposes beside a packer."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from pytest_longctx import check_contract
from pytest_longctx.cli import main

from .conftest import EXAMPLES, chat

pytest.importorskip("trl")

SHAREGPT = [{"from": "human", "value": "What is it?"}, {"from": "gpt", "value": "It is so."}]
ROWS = {
    "messages": chat("a", "What is it?", "It is so."),
    "sharegpt": {"conversations": SHAREGPT},
    "alpaca": {"instruction": "Say hi.", "input": "", "output": "Hi."},
    "prompt_completion": {"prompt": "2 + 2 = ", "completion": "4"},
    "text": {"text": "Once upon a time."},
    "tokenized": {"input_ids": [5, 6, 7, 2], "labels": [-100, 6, 7, 2]},  # 2 is <|im_end|>
}


@pytest.mark.parametrize("shape", ROWS)
def test_the_line_in_a_comment_passes_on_sound_rows(tmp_path, monkeypatch, shape):
    monkeypatch.setattr("pytest_longctx.init.proposal.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    rows = [ROWS[shape] | {"uid": str(number)} for number in range(20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tokenizer = ["--tokenizer", str(EXAMPLES / "tokenizer"), "--template", str(EXAMPLES / "chatml.jinja")]
    assert main(["init", "rows.jsonl", *tokenizer, "-o", "c.yaml"]) == 0
    terms = yaml.safe_load((tmp_path / "c.yaml").read_text())
    (line,) = re.findall("# (trainer: .*)", (tmp_path / "c.yaml").read_text())
    terms["packing"] = yaml.safe_load(line)
    (tmp_path / "c.yaml").write_text(json.dumps(terms))
    report = check_contract("c.yaml")
    assert [r.check.id for r in report.results if r.outcome in ("failed", "error")] == []
