"""A small project with a contract, as a user has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np  # noqa: F401 - see below
import orjson  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import transformers.models.auto.tokenization_auto
import yaml

# pytester drops what a run in this process imports, and extension modules cannot be imported twice: so they
# are imported here, before the first run.
assert transformers.models.auto.tokenization_auto.AutoTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def chat(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """Ten short chats."""
    return [
        {"uid": f"chat-{i}", "messages": chat(f"What is {i} and {i}?", f"It is {2 * i}.")} for i in range(10)
    ]


@pytest.fixture
def write_rows() -> Callable[[Path, list[dict[str, Any]]], Path]:
    def write(path: Path, rows: list[dict[str, Any]]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture
def project(
    pytester: pytest.Pytester, examples: Path, rows: list[dict[str, Any]], write_rows: Any
) -> Callable[..., Path]:
    """Writes `contracts/NAME.yaml` and its data; keywords replace default sections, None drops one."""

    def write(name: str = "sft", folder: str = "contracts", **sections: Any) -> Path:
        write_rows(pytester.path / "data" / "chats.jsonl", rows)
        terms = {
            "contract": 1,
            "tokenizer": {
                "path": str(examples / "tokenizer"),
                "chat_template": str(examples / "chatml.jinja"),
            },
            "dataset": {"path": str(pytester.path / "data" / "chats.jsonl"), "id": "uid"},
            "window": {"target_context_len": 64, "limits": {"max_overflow_ratio": 0.0}},
            "packing": {"packer": "ffd"},
            **sections,
        }
        path = pytester.path / folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {key: value for key, value in terms.items() if value is not None}
        path.write_text(yaml.safe_dump(kept, sort_keys=False), encoding="utf-8")
        return path

    return write
