"""A tokenizer folder of a stranger: no code in it runs, and no pattern in it holds the run up."""

from __future__ import annotations

import json
import pickle

import pytest

from pytest_longctx.errors import TokenizerError
from pytest_longctx.evidence import BrokenLinkError, Evidence
from pytest_longctx.tokens import deadline

ROWS = [{"messages": [{"role": "user", "content": "a" * 40 + "!"}, {"role": "assistant", "content": "b"}]}]


def split_by(pattern):
    regex = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"pre_tokenizer": regex}


def refused(evidence, link):
    with pytest.raises(BrokenLinkError) as caught:
        getattr(evidence, link)
    assert isinstance(caught.value.cause, TokenizerError), repr(caught.value.cause)
    return str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        {"auto_map": {"AutoTokenizer": ["hostile.Hostile", "hostile.Hostile"]}, "tokenizer_class": "Hostile"},
        {"auto_map": {"AutoTokenizer": [None, "hostile.Hostile"]}},
        {"auto_map": {"AutoTokenizer": "hostile.Hostile"}, "tokenizer_class": "HostileFast"},
        {"auto_map": {"AutoConfig": "hostile.Hostile"}},
    ],
    ids=["own_class", "beside_a_class", "fast_class", "config"],
)
def test_code_in_the_folder_is_never_run(contract, tokenizer_folder, tmp_path, config):
    marker = tmp_path / "ran"
    folder = tokenizer_folder.change(config=config)
    code = f"open({str(marker)!r}, 'w').close()\nclass Hostile: pass\n"
    (tokenizer_folder.path / "hostile.py").write_text(code)
    (tokenizer_folder.path / "config.json").write_text(json.dumps({"model_type": "hostile", **config}))
    try:
        _ = Evidence(contract(tokenizer=folder)).measured
    except BrokenLinkError as error:
        found = str(error)  # refused is as good as ignored
        assert "cannot be loaded by transformers" in found
    assert not marker.exists()


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_in_the_folder_are_never_read(contract, tokenizer_folder, tmp_path):
    marker = tmp_path / "ran"
    for name in ("pytorch_model.bin", "tokenizer.pkl", "vocab.bin", "added_tokens.pkl", "tokenizer.model"):
        (tokenizer_folder.path / name).write_bytes(pickle.dumps(Touch(marker)))
    assert len(Evidence(contract(tokenizer=str(tokenizer_folder.path))).measured.ledger) == 1
    assert not marker.exists()


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a|aa)+$"])
def test_a_pattern_that_explodes(contract, tokenizer_folder, bounded, pattern):
    folder = tokenizer_folder.change(tokenizer=split_by(pattern))
    with bounded:
        message = refused(Evidence(contract(tokenizer=folder, rows=ROWS)), "measured")
    assert message.startswith("the tokenizer failed: ")
    assert "retry-limit" in message


def test_a_pattern_that_is_slow_at_every_place(contract, tokenizer_folder, bounded, monkeypatch):
    """Each attempt stays below the limit of the regex library; together they would take hours."""
    monkeypatch.setattr(deadline, "NATIVE_SECONDS", 0.3)
    monkeypatch.setattr(deadline, "SECONDS_A_CHARACTER", 0.0)
    rows = [{"messages": [{"role": "user", "content": "a" * 3500}, {"role": "assistant", "content": "b"}]}]
    folder = tokenizer_folder.change(tokenizer=split_by("a*a*(?<=z)"))
    with bounded:
        message = refused(Evidence(contract(tokenizer=folder, rows=rows)), "measured")
    assert "the tokenizer had not ended after 0.3 seconds; its pattern may explode" in message


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version": "1.0"}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"model": {"type": "BPE"}}',
    ],
    ids=["empty", "cut", "list", "null", "no_model", "deep", "binary", "no_vocabulary"],
)
def test_a_damaged_tokenizer(contract, tokenizer_folder, bounded, content):
    (tokenizer_folder.path / "tokenizer.json").write_bytes(content)
    with bounded:
        message = refused(Evidence(contract(tokenizer=str(tokenizer_folder.path))), "tokenizer")
    assert message.startswith("tokenizer.path: ")
    assert "\n" not in message


@pytest.mark.parametrize("path", ["../../../../etc", "/proc/self", "~", "nowhere/\u202egpj.exe"])
def test_paths_that_are_no_tokenizer(contract, path):
    message = refused(Evidence(contract(tokenizer=path)), "tokenizer")
    assert message.startswith("tokenizer.path: ")
