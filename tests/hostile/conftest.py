"""Things that a stranger's pull request may hold. Everything here is bounded in time and memory."""

from __future__ import annotations

import json
import shutil
import time
from types import SimpleNamespace

import pytest
import yaml

from pytest_longctx.contract import TokenizerSection, load_contract
from pytest_longctx.tokens.deadline import process_bytes
from pytest_longctx.tokens.tokenizer import load_tokenizer

SECONDS = 20.0  # generous: most take milliseconds, and the machine may be busy
BYTES = 400 << 20


@pytest.fixture(scope="session")
def imported(examples):
    """What a first run imports: half a GiB with torch, which is no growth by what is tested."""
    section = TokenizerSection(path=str(examples / "tokenizer"))
    load_tokenizer(SimpleNamespace(tokenizer=section, resolve=examples.joinpath))


@pytest.fixture
def bounded(imported):
    """A block that must end soon, and must not make the process grow much."""

    class Bounded:
        def __enter__(self):
            self.start, self.size = time.monotonic(), process_bytes()

        def __exit__(self, *error):
            assert time.monotonic() - self.start < SECONDS
            assert process_bytes() - self.size < BYTES

    return Bounded()


@pytest.fixture
def contract(tmp_path, examples):
    """Write a contract over some rows, with a template or tokenizer of the test; returns it loaded."""

    def write(template=None, rows=None, tokenizer=None, **sections):
        rows = rows or [
            {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
        ]
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        folder = tokenizer or str(examples / "tokenizer")
        terms = {"path": folder, "chat_template": str(examples / "chatml.jinja")}
        if template is not None:
            (tmp_path / "hostile.jinja").write_text(template)
            terms["chat_template"] = "hostile.jinja"
        data = {"contract": 1, "tokenizer": terms, "dataset": {"path": "rows.jsonl"}, **sections}
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
        return load_contract(tmp_path / "c.yaml")

    return write


@pytest.fixture
def tokenizer_folder(tmp_path, examples):
    """A copy of the example tokenizer to tamper with: `change(tokenizer=…, config=…)` edits the two files."""
    folder = tmp_path / "tokenizer"
    shutil.copytree(examples / "tokenizer", folder)

    def change(tokenizer=None, config=None):
        for name, edit in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
            if edit is not None:
                path = folder / name
                path.write_text(json.dumps({**json.loads(path.read_text()), **edit}))
        return str(folder)

    return SimpleNamespace(path=folder, change=change)
