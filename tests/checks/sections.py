"""Parts of a contract and of its evidence, made by hand."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

from pytest_longctx.witness import Witness


def terms(shape="messages", weight=None, fingerprint=None, **sections):
    given = {"packing": None, "isolation": None, "gpu": None, **sections}
    return SimpleNamespace(
        dataset=SimpleNamespace(shape=shape, path="rows.jsonl", limits=SimpleNamespace()),
        supervision=SimpleNamespace(message_weight=weight),
        tokenizer=SimpleNamespace(fingerprint=fingerprint),
        **given,
    )


def names(checks):
    return [check.name for check in checks]


def found(count=0, check="supervision::message_weight", contract=None):
    """Evidence of so many offences against one check."""
    witnesses = [Witness(f"row {number}") for number in range(count)]
    findings = SimpleNamespace(counts=Counter({check: count}), witnesses={check: witnesses})
    return SimpleNamespace(contract=contract or terms(), measured=SimpleNamespace(findings=findings))
