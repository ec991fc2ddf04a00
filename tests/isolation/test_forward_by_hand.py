"""What the training step passes to the model, by the contract's trainer."""

from __future__ import annotations

import pytest

from pytest_longctx.contract import IsolationSection
from pytest_longctx.contract.stages import PackingSection
from pytest_longctx.isolation.probes import forward_of


@pytest.mark.parametrize(
    ("trainer", "said", "passed"),
    [
        (None, {}, {}),
        ("mine", {}, {}),
        ("trl_sft", {}, {"use_cache": False}),
        ("transformers", {}, {"use_cache": False}),
        ({"name": "trl_sft", "config": {"use_cache": True}}, {}, {"use_cache": False}),
        ({"name": "transformers", "config": {"use_cache": True}}, {}, {"use_cache": True}),
        ("trl_sft", {"use_cache": True, "logits_to_keep": 0}, {"use_cache": True, "logits_to_keep": 0}),
        ("trl_sft", {"logits_to_keep": 0}, {"use_cache": False, "logits_to_keep": 0}),
        ("mine", {"use_cache": True}, {"use_cache": True}),
    ],
)
def test_the_cache_is_as_the_trainer_has_it_unless_the_contract_says(trainer, said, passed):
    packing = PackingSection(trainer=trainer)
    assert forward_of(IsolationSection(forward=said), packing) == passed


def test_without_packing():
    assert forward_of(IsolationSection(forward={"use_cache": True}), None) == {"use_cache": True}
