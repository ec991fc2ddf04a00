"""The fingerprint of a tokenizer: files from which its ids follow, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from pytest_longctx.check import check_contract
from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence
from pytest_longctx.settings import Settings
from pytest_longctx.tokens.tokenizer import load_tokenizer

EXAMPLES = Path(__file__).parents[2] / "examples"
# Of the example tokenizer and its template alone, as contracts of earlier releases pin it.
PIN = "sha256:ac47cd6cffc3ecc850e2eece1fa7be777de908af877f06561af0eb3c8aaede71"
ROW = {
    "messages": [
        {"role": "user", "content": "hi there 12345"},
        {"role": "assistant", "content": "hello there friend 67890"},
    ]
}


@pytest.fixture
def folder(tmp_path):
    """A copy of the example tokenizer, of which a test may change files."""
    return Path(shutil.copytree(EXAMPLES / "tokenizer", tmp_path / "tokenizer"))


@pytest.fixture
def contract(tmp_path, folder):
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW))
    shutil.copy(EXAMPLES / "chatml.jinja", tmp_path)

    def write(**terms):
        path = tmp_path / "contract.yaml"
        tokenizer = {"path": "tokenizer", "chat_template": "chatml.jinja", **terms}
        sections = {"contract": 1, "tokenizer": tokenizer, "dataset": {"path": "rows.jsonl"}}
        path.write_text(yaml.safe_dump(sections))
        return path

    return write


@pytest.fixture
def fingerprint(contract):
    return lambda: load_tokenizer(load_contract(contract())).fingerprint


@pytest.fixture
def ids(contract, tmp_path):
    """The ids of the row; a cache that other runs have filled says the same."""

    def ids():
        loaded = load_contract(contract())
        cached = Evidence(loaded, settings=Settings(cache=tmp_path / "cache")).measured.samples.ids.tolist()
        assert cached == Evidence(loaded).measured.samples.ids.tolist()
        return cached

    return ids


def pinned(path):
    results = {result.check.id: result.outcome for result in check_contract(path).results}
    return results["tokenizer::pinned"]


def split_up(folder):
    """The tokenizer as files of a class that reads vocabulary and merges itself."""
    content = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    (folder / "tokenizer.json").unlink()
    added = {token["content"]: token["id"] for token in content["added_tokens"]}
    (folder / "vocab.json").write_text(json.dumps({**content["model"]["vocab"], **added}))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), "utf-8")
    config = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return merges


def without_class(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    del config["tokenizer_class"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def test_a_folder_without_such_files_keeps_its_pin(fingerprint):
    assert fingerprint() == PIN


def test_other_merges(folder, contract, fingerprint, ids):
    merges = split_up(folder)
    pin, before = fingerprint(), ids()
    assert pinned(contract(fingerprint=pin)) == "passed"
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges[:50], ""]), "utf-8")
    assert pinned(contract(fingerprint=pin)) == "failed"
    assert len(ids()) > len(before)


def test_another_model_type(folder, contract, fingerprint, ids):
    without_class(folder)
    pin, before = fingerprint(), ids()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    assert pinned(contract(fingerprint=pin)) == "failed"
    assert ids() != before


def test_other_keys_of_a_configuration_change_nothing(folder, fingerprint):
    (folder / "config.json").write_text(json.dumps({"hidden_size": 8}))
    assert fingerprint() == PIN
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", "hidden_size": 8}))
    before = fingerprint()
    (folder / "config.json").write_text(json.dumps({"hidden_size": 16, "model_type": "qwen2"}))
    assert fingerprint() == before != PIN


@pytest.mark.parametrize(
    "name",
    [
        *("vocab.json", "merges.txt", "vocab.txt", "spiece.model", "tokenizer.model", "qwen.tiktoken"),
        *("tekken.json", "added_tokens.json", "tokenizer.4.0.0.json"),
    ],
)
def test_every_file_that_a_class_of_tokenizers_reads_counts(folder, fingerprint, name):
    found = {PIN}
    for content in ("{}", "[]") if name != "added_tokens.json" else ('{"<new>": 4000}', '{"<old>": 4000}'):
        (folder / name).write_text(content)
        found.add(fingerprint())
    assert len(found) == 3


def test_a_file_beside_them_does_not_count(folder, fingerprint):
    for name in ("model.safetensors", "README.md", "generation_config.json", "weights.json"):
        (folder / name).write_text("{}")
    (folder / "a.model").mkdir()
    assert fingerprint() == PIN
