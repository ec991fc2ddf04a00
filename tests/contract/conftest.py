from __future__ import annotations

import pytest

from pytest_longctx.contract import load_contract
from pytest_longctx.errors import ContractError

HEAD = "contract: 1\ntokenizer: {path: tok}\ndataset: {path: a.jsonl}\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write `c.yaml` into the working folder."""
    monkeypatch.chdir(tmp_path)

    def write(content):
        raw = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "c.yaml").write_bytes(raw)
        return "c.yaml"

    return write


@pytest.fixture
def load(write):
    """Load a contract from text."""
    return lambda text: load_contract(write(text))


@pytest.fixture
def loads(load):
    """Load a contract from what stands below a sound head (lines 1 to 3)."""
    return lambda text: load(HEAD + text)


@pytest.fixture
def problems(write):
    """The problems of a text, as they are printed, without the file's name."""

    def problems(content):
        with pytest.raises(ContractError) as caught:
            load_contract(write(content))
        return [str(problem).removeprefix("c.yaml:") for problem in caught.value.problems]

    return problems


@pytest.fixture
def below(problems):
    """The problems of what stands below a sound head, from line 4."""
    return lambda text: problems(HEAD + text)
