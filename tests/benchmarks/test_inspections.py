"""What the checks of tokenizer, dataset and supervision cost beside the ledger, in one run.

The same rows are rendered, tokenized and labelled with all checks and with none.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_longctx.contract import DatasetSection, SupervisionSection, TokenizerSection
from pytest_longctx.dataset import open_dataset
from pytest_longctx.tokens.build import make_sampler, measure
from pytest_longctx.tokens.round_trip import arrow_round_trip
from pytest_longctx.tokens.second_look import growing_prefixes, some_rows, two_clocks
from pytest_longctx.tokens.tokenizer import load_tokenizer

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")
pytest.importorskip("datasets", reason="datasets is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples"
HERE = SimpleNamespace(resolve=EXAMPLES.joinpath)
TERMS = SupervisionSection()


@pytest.fixture(scope="module")
def tokenizer():
    section = TokenizerSection(path="./tokenizer", chat_template="chatml.jinja")
    return load_tokenizer(SimpleNamespace(tokenizer=section, resolve=EXAMPLES.joinpath))


def opened():
    names = ("coding", "documents", "everyday", "support")
    return open_dataset(DatasetSection(path=[f"data/{name}.jsonl" for name in names]), HERE)


def without_checks(tokenizer):
    dataset = opened()
    return measure(dataset, dataset.shape, tokenizer, TERMS, inspect=False)


def with_all_checks(tokenizer):
    dataset = opened()
    measured = measure(dataset, dataset.shape, tokenizer, TERMS)
    sampler = make_sampler(tokenizer, TERMS)
    two_clocks(some_rows(dataset, measured.rows), sampler)
    growing_prefixes(some_rows(dataset, measured.rows), sampler)
    assert not arrow_round_trip(dataset, measured.rows, sampler).refused
    return measured


def test_checks_beside_the_bare_ledger(ratio, tokenizer):
    ratio(
        lambda: with_all_checks(tokenizer),
        lambda: without_checks(tokenizer),
        what="ledger with all checks of rows / ledger without",
        reach="≤ 1.35",
        scale="the example chats",
        rounds=3,
        clock=time.process_time,
    )
