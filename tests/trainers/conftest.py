from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def make_evidence(tmp_path):
    """Evidence of a contract over rows, with the example tokenizer and template."""

    def make(rows, packing, window=None, supervision="", tokenizer=None, **dataset):
        if isinstance(rows, list):
            (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            rows = "data.jsonl"
        tokenizer = tokenizer or {
            "path": str(EXAMPLES / "tokenizer"),
            "chat_template": str(EXAMPLES / "chatml.jinja"),
        }
        contract = {
            "contract": 1,
            "tokenizer": tokenizer,
            "dataset": {"path": rows, **({"id": "uid"} | dataset)},
            "packing": packing,
        }
        if window:
            contract["window"] = {"target_context_len": window}
        if supervision:
            contract["supervision"] = {"turns": supervision}
        file = tmp_path / "contract.yaml"
        file.write_text(json.dumps(contract))
        return Evidence(load_contract(file))

    return make


def failing(evidence):
    return {check for check, count in evidence.audit.counts.items() if count}


def example_rows(name, number):
    lines = (EXAMPLES / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[:number]]


def chat(uid, question, answer):
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"uid": uid, "messages": turns}
