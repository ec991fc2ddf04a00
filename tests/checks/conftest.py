"""Contracts over rows of lengths alone."""

from __future__ import annotations

import json

import pytest
import yaml

from pytest_longctx.checks import checks_of
from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence


@pytest.fixture
def judge(tmp_path):
    """The verdicts by check of a contract over rows of (prompt, supervised) tokens."""

    def judged(rows, sample=None, **sections):
        lines = [
            json.dumps({"id": f"r{place}", "prompt_tokens": prompt, "supervised_tokens": supervised}) + "\n"
            for place, (prompt, supervised) in enumerate(rows)
        ]
        (tmp_path / "rows.jsonl").write_text("".join(lines))
        dataset = {
            "path": "rows.jsonl",
            "shape": "lengths",
            "id": "id",
            **({"sample": sample} if sample else {}),
        }
        path = tmp_path / "contract.yaml"
        path.write_text(yaml.safe_dump({"contract": 1, "dataset": dataset, **sections}))
        contract = load_contract(path)
        evidence = Evidence(contract)
        return {check.name: check.run(evidence) for check in checks_of(contract)}

    return judged
