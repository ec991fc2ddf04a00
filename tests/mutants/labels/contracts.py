"""Contracts over sound chats, of which one thing can be made wrong at a time."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import yaml

from pytest_longctx.check import check_contract

EXAMPLES = Path(__file__).parents[3] / "examples"
CHATML = (EXAMPLES / "chatml.jinja").read_text(encoding="utf-8")
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": "two"}}}
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Adds", "parameters": {"type": "object", "properties": {}}},
}


def user(content):
    return {"role": "user", "content": content}


def answer(content, **keys):
    return {"role": "assistant", "content": content, **keys}


ROWS = [
    {
        "uid": "several",
        "messages": [
            {"role": "system", "content": "Answer briefly."},
            user("What is the capital of France?"),
            answer("It is Paris."),
            user("And of Italy?"),
            answer("That would be Rome."),
        ],
    },
    {"uid": "one", "messages": [user("Say hello."), answer("Hello there, friend.")]},
    {
        "uid": "tools",
        "tools": [TOOL],
        "messages": [
            user("Add one and two."),
            answer("", tool_calls=[CALL]),
            {"role": "tool", "content": "three"},
            answer("The sum is three."),
        ],
    },
]


def rows():
    """A copy of the sound rows, to be changed."""
    return copy.deepcopy(ROWS)


def completions():
    """The sound rows as prompt and completion."""
    return [
        {
            "uid": row["uid"],
            "prompt": row["messages"][:-1],
            "completion": row["messages"][-1:],
            **({"tools": row["tools"]} if "tools" in row else {}),
        }
        for row in ROWS
    ]


class Case:
    """A contract in a folder: tokenizer, template, rows, and further sections."""

    def __init__(self, folder, template=CHATML, tokenizer=None, **sections):
        self.folder = folder
        (folder / "chat.jinja").write_text(template, encoding="utf-8")
        path = EXAMPLES / "tokenizer"
        if tokenizer is not None:
            path = folder / "tokenizer"
            tokenizer.save_pretrained(path)
        self.contract = {
            "contract": 1,
            "tokenizer": {"path": str(path), "chat_template": "chat.jinja"},
            "dataset": {"path": "*.jsonl", "id": "uid"},
            **sections,
        }

    def write(self, values, name="rows.jsonl"):
        """Add a file of rows."""
        text = "".join(f"{json.dumps(value, ensure_ascii=False)}\n" for value in values)
        (self.folder / name).write_text(text, encoding="utf-8")
        return self

    def report(self):
        """All results of the contract."""
        file = self.folder / "contract.yaml"
        file.write_text(yaml.safe_dump(self.contract, sort_keys=False), encoding="utf-8")
        return check_contract(file)

    def verdict(self, check):
        """The verdict of one check."""
        return next(result.verdict for result in self.report().results if result.check.id == check)

    def outcomes(self):
        """All checks that did not pass, by id, with their outcomes."""
        report = self.report()
        return {
            result.check.id: result.outcome
            for result in report.results
            if result.outcome not in ("passed", "skipped")
        }


def backend():
    """The example tokenizer, to be changed."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(EXAMPLES / "tokenizer")
