"""The small project of the plugin's tests, and the two ways to run its contract."""

from __future__ import annotations

import datasets  # noqa: F401 - runs in this process would import it anew, which its types do not bear
import pytest

from tests.plugin.conftest import project, rows, write_rows  # noqa: F401

CONTRACT = "--longctx-contract=contracts/sft.yaml"


class Run:
    """A run of the contract that must not be green; its whole text, with single blanks."""

    def __init__(self, result):
        self.result = result
        self.ret = int(result.ret)
        self.text = " ".join((result.stdout.str() + result.stderr.str()).split())

    def says(self, *words):
        for word in words:
            assert word in self.text, self.result.stdout.str() + self.result.stderr.str()
        assert "INTERNALERROR" not in self.text


@pytest.fixture
def not_green(pytester):
    """Run the contract: it must end with this exit status and say these words.

    `apart` runs it in a process of its own, where what it breaks does not stay behind in this one.
    """

    def run(status, *words, args=(), apart=False):
        start = pytester.runpytest_subprocess if apart else pytester.runpytest
        ended = Run(start(CONTRACT, *args))
        assert ended.ret == status, ended.text
        ended.says(*words)
        return ended

    return run
