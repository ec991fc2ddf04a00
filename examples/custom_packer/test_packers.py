"""The same invariants without data: a packer's author runs these beside the other tests."""

from __future__ import annotations

import pytest
from packers import next_fit, next_fit_in_shards

from pytest_longctx.testing import MUTANTS, assert_packer


def test_next_fit_is_sound() -> None:
    """It holds every invariant on small samples."""
    assert_packer(next_fit)


def test_shards_lose_samples() -> None:
    """The fault is found on a few samples already."""
    with pytest.raises(AssertionError, match="sample_conservation"):
        assert_packer(lambda samples, most: next_fit_in_shards(samples, most, shard=5))


def test_a_fault_put_into_it_is_found() -> None:
    """What the checks notice when the packer drops a sample."""
    (drops,) = (mutant for mutant in MUTANTS if mutant.name == "drops_a_sample")
    assert drops.failing(next_fit).keys() == drops.checks
