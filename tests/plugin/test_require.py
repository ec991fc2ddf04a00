"""`--longctx-require`: which words it takes, and what they do."""

from __future__ import annotations

from typing import get_args

import pytest

from pytest_longctx.checks import dataset  # before the first run, which would drop the module
from pytest_longctx.contract.runs import Attention
from pytest_longctx.options import REQUIREMENTS

CONTRACT = "--longctx-contract=contracts/sft.yaml"


def test_the_words_are_those_that_checks_ask_for():
    assert ("gpu", "datasets", *get_args(Attention)) == REQUIREMENTS


@pytest.mark.parametrize("word", ["GPU", "flash-attention-2", "trl", ""])
def test_another_word_is_an_error_of_usage_that_names_them(pytester, project, word):
    project()
    result = pytester.runpytest_inprocess(CONTRACT, f"--longctx-require={word}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--longctx-require: invalid choice: '{word}' (choose from *gpu*sdpa*"])


def test_every_word_is_accepted(pytester, project):
    project()
    required = [f"--longctx-require={word}" for word in REQUIREMENTS]
    result = pytester.runpytest_inprocess(CONTRACT, *required, "-k", "pinned")
    assert result.ret == pytest.ExitCode.OK


def test_datasets_may_be_required(pytester, project, monkeypatch):
    monkeypatch.setattr(dataset, "find_spec", lambda name: None)
    project()
    run = (CONTRACT, "-k", "arrow_round_trip")
    assert pytester.runpytest_inprocess(*run).parseoutcomes()["skipped"] == 1
    result = pytester.runpytest_inprocess(*run, "--longctx-require=datasets")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(
        ["datasets is required and cannot run here", "*pip install 'pytest-longctx?hub?'*"]
    )
