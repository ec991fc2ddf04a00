"""Whether packed rows can be told from batches alone: one row of a batch may be several of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_longctx.check import check_contract
from pytest_longctx.extensions import Extensions
from pytest_longctx.packing.audit import Delivery
from pytest_longctx.packing.batch import read_row
from pytest_longctx.testing.examples import Case, flat
from tests.packing.deliveries import ROWS, alone, both, packed, row_of

ROOT = Path(__file__).parents[2]
FIRST, SECOND, THIRD = row_of(1, 0), row_of(2), row_of(3)


def flattened(*rows):
    return alone(*rows, collate=flat)


@pytest.mark.parametrize(
    ("deliveries", "batch_size", "hidden"),
    [
        ([flattened(FIRST, SECOND), flattened(THIRD)], 2, True),
        ([flattened(FIRST, SECOND, THIRD)], 3, True),
        ([flattened(row_of(1), row_of(3))], 2, True),
        # One packed row a batch, as the contract has it.
        ([flattened(FIRST), flattened(SECOND), flattened(THIRD)], 1, False),
        # Rows side by side, all of them or but one that is left over.
        ([alone(FIRST, SECOND)], 2, False),
        ([alone(FIRST, SECOND), alone(THIRD)], 2, False),
        ([alone(FIRST, SECOND), flattened(THIRD)], 2, False),
        ([alone(FIRST, SECOND), flattened(row_of(3)), flattened(row_of(3))], 2, False),
        # The rows themselves, with each batch or before all of them.
        ([both(FIRST, SECOND, collate=flat), both(THIRD, collate=flat)], 2, False),
        (
            [Delivery([packed(row) for row in (FIRST, SECOND, THIRD)], None), flattened(FIRST, SECOND)],
            2,
            False,
        ),
        # Some of the rows are not enough.
        ([both(FIRST, SECOND, collate=flat), flattened(THIRD)], 2, True),
    ],
)
def test_whether_rows_are_hidden(judged, deliveries, batch_size, hidden):
    found = judged(*deliveries, case=Case(ROWS, capacity=8, batch_size=batch_size))
    assert found.rows_hidden is hidden
    # No packed row has more tokens than the batches that may hold several of them.
    long = max(found.row_lengths) > 8
    assert found.unseen == (("capacity",) * long + ("supervision_per_row",) if hidden else ())
    assert found.comparison is None or not hidden


def test_an_offence_is_no_thing_unseen(judged):
    found = judged(flattened(FIRST, SECOND), flattened(THIRD), case=Case(ROWS, capacity=5, batch_size=2))
    assert found.counts["capacity"] == 1
    assert found.unseen == ("supervision_per_row",)


class Loop:
    """As a training loop with a padding-free collator has it; `seen` says whether it shows its rows."""

    maker = "my loop"

    def __init__(self, request, seen):
        self.request, self.seen = request, seen

    def deliver(self):
        rows, size = list(self.request.pack()), self.request.terms.batch_size
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            shown = [read_row(row, self.maker, number) for number, row in enumerate(block, start)]
            yield Delivery(shown if self.seen else None, self.request.collate(block))

    def window(self):
        return 8

    make_batch = None


@pytest.fixture
def outcomes(tmp_path):
    """What the checks say of a loop over eight samples of two tokens each, one a row of eight tokens."""
    rows = [{"input_ids": [at, at + 10], "labels": [-100, at + 10]} for at in range(1, 9)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    metrics = {"long_context_score": 1, "short_context_score": 1, "supervised_tokens_per_optimizer_step": 4}
    metrics |= {"failed_runs": 0, "peak_memory_gb": 1, "cost_per_supervised_token": 1}
    (tmp_path / "m.json").write_text(json.dumps(metrics | {"loss_finite": True, "gradients_finite": True}))

    def outcomes(batch_size, *, seen):
        packing = {"max_tokens_per_bin": 8, "packer": "none", "collator": "flat", "batch_size": batch_size}
        limits = {"min_utilization": 0.25, "max_rows_over_bound": 4, "max_rows_over_optimal": 6}
        stage = {"target_context_len": 8, "metrics": "m.json"}
        batch = {"rows_per_device": 4, "gradient_accumulation": 1, "devices": 1}
        contract = {
            "contract": 1,
            "dataset": {"path": "data.jsonl"},
            "tokenizer": {"path": str(ROOT / "examples/tokenizer")},
            "packing": {**packing, "trainer": "loop", "limits": limits | {"max_padding_ratio": 0}},
            "curriculum": {
                "batch": batch,
                "baseline": {"target_context_len": 4, "metrics": "m.json"},
                "stages": [{"name": "first", **stage}],
                "limits": {
                    "min_long_context_gain": 0,
                    "max_short_context_regression": 0,
                    "max_failed_runs": 0,
                    "max_peak_memory_gb": 1,
                    "max_cost_per_supervised_token": 1,
                },
            },
        }
        (tmp_path / "contract.yaml").write_text(json.dumps(contract))
        added = Extensions(trainers={"loop": lambda request: Loop(request, seen)}, collators={"flat": flat})
        report = check_contract(tmp_path / "contract.yaml", added)
        judged = [result for result in report.results if result.check.section in ("packing", "curriculum")]
        return {result.check.name: result.outcome for result in judged if result.outcome != "passed"}

    return outcomes


def test_a_loop_that_flattens_and_shows_no_rows(outcomes):
    """Eight rows of two tokens, a quarter full; eight to a batch they would look like one row, full twice."""
    assert outcomes(8, seen=True) == outcomes(1, seen=False) == {}
    assert outcomes(8, seen=False) == dict.fromkeys(
        [
            "capacity",
            "supervision_per_row",
            "min_utilization",
            "max_rows_over_bound",
            "max_rows_over_optimal",
            "measured_token_budget",
        ],
        "failed",
    )
