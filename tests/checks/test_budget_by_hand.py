"""The token budget of a stage's optimizer step, from four samples counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_longctx.contract import load_contract
from pytest_longctx.curriculum import LIMITS
from pytest_longctx.evidence import Evidence
from pytest_longctx.stages import measured_budget

ROOT = Path(__file__).parents[2]

# (tokens, supervised ones at the end): 14 tokens, 8 of them supervised. A window of 4 admits the last three.
SAMPLES = ((6, 4), (3, 2), (3, 1), (2, 1))
METRICS = {"trainer_state": "t.json", "eval": "e.json", "map": {}}


@pytest.fixture
def budget(tmp_path):
    """Targets per step, of ten rows, and how they were counted, at a stage of some window."""

    def budget(stage, packing, window=8, samples=SAMPLES):
        rows = []
        for tokens, supervised in samples:
            ids = list(range(10, 10 + tokens))
            labels = [-100] * (tokens - supervised) + ids[tokens - supervised :]
            rows.append(json.dumps({"input_ids": ids, "labels": labels}) + "\n")
        (tmp_path / "rows.jsonl").write_text("".join(rows))
        contract = {
            "contract": 1,
            "dataset": {"path": "rows.jsonl"},
            "tokenizer": {"path": str(ROOT / "examples/tokenizer")},
            "packing": packing,
            "curriculum": {
                "batch": {"rows_per_device": 5, "gradient_accumulation": 2},
                "baseline": {"metrics": METRICS},
                "stages": [{"name": "first", "target_context_len": stage, "metrics": METRICS}],
                "limits": dict.fromkeys(LIMITS, 1),
            },
        }
        if window is not None:
            contract["window"] = {"target_context_len": window}
        (tmp_path / "contract.yaml").write_text(json.dumps(contract))
        found = measured_budget(Evidence(load_contract(tmp_path / "contract.yaml")), 0)
        return found.tokens, found.counted

    return budget


NONE = {"packer": "none", "collator": "padded"}


@pytest.mark.parametrize(
    ("stage", "targets", "rows", "made"),
    [
        (8, 8, 4, "that none + padded delivered"),
        (16, 8, 4, "of one sample each at a window of 16"),
        (4, 4, 3, "of one sample each at a window of 4"),
        (1, 0, 0, "of one sample each at a window of 1"),
    ],
)
def test_without_packing_each_sample_is_a_row(budget, stage, targets, rows, made):
    found = budget(stage, NONE)
    assert found == (targets / max(1, rows) * 10, f"{targets} targets in {rows} rows {made}; 10 rows a step")


def planned(capacity, window):
    return f"of at most {capacity} tokens, as first-fit decreasing would pack a window of {window}"


@pytest.mark.parametrize("packer", ["ffd", "bfd"])
@pytest.mark.parametrize(
    ("window", "capacity", "stage", "targets", "rows", "made"),
    [
        # 6 and 2 tokens, 3 and 3.
        (8, None, 8, 8, 2, None),
        (8, 8, 8, 8, 2, None),
        (None, 8, 8, 8, 2, None),
        (8, None, 16, 8, 1, planned(16, 16)),
        (8, 8, 16, 8, 1, planned(16, 16)),
        (None, 8, 16, 8, 1, planned(16, 16)),
        # 3, 3 and 2 tokens.
        (8, None, 4, 4, 3, planned(4, 4)),
        # Rows larger than the window are as large at each stage, and hold the stage's window.
        (8, 14, 8, 8, 1, None),
        (8, 14, 4, 4, 1, planned(14, 4)),
        (4, 14, 14, 8, 1, planned(14, 14)),
        (4, 6, 8, 8, 2, planned(8, 8)),
    ],
)
def test_packed_rows(budget, packer, window, capacity, stage, targets, rows, made):
    packing = {"packer": packer, **({"max_tokens_per_bin": capacity} if capacity else {})}
    made = made or f"that {packer} + block_mask delivered"
    found = budget(stage, packing, window)
    assert found == (targets / rows * 10, f"{targets} targets in {rows} rows {made}; 10 rows a step")


@pytest.mark.parametrize(("config", "rows"), [({}, 4), ({"packing": False}, 4), ({"packing": True}, 1)])
def test_trl_packs_by_its_own_config(budget, config, rows):
    """Four samples of 14 tokens, and a window of 16."""
    tokens, counted = budget(16, {"trainer": {"name": "trl_sft", "config": config}})
    assert tokens == 80 / rows
    assert counted.startswith(f"8 targets in {rows} rows ")


@pytest.mark.parametrize("stage", [4, 8])
def test_a_first_token_is_no_target(budget, stage):
    """Two samples of three tokens, each with all of them supervised: two targets each."""
    tokens, _ = budget(stage, NONE, samples=((3, 3), (3, 3)))
    assert tokens == 20
