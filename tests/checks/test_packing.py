from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_longctx.checks import checks_of
from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence
from pytest_longctx.report.record import to_record
from pytest_longctx.report.text import verdict_lines

ROOT = Path(__file__).parents[2]
CAPACITY = 64


@pytest.fixture
def judge(tmp_path):
    """The record and the text of one limit over samples of these lengths, in rows of 64 tokens."""

    def judged(sizes, name, value, **packing):
        rows = [
            {"uid": str(place), "input_ids": [10 + place] * size, "labels": [10 + place] * size}
            for place, size in enumerate(sizes)
        ]
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        terms = {
            "contract": 1,
            "tokenizer": {"path": str(ROOT / "examples" / "tokenizer")},
            "dataset": {"path": "rows.jsonl", "shape": "tokenized", "id": "uid"},
            "packing": {
                "max_tokens_per_bin": CAPACITY,
                "collator": "padded",
                "invariants": ["capacity"],
                "limits": {name: value},
                **packing,
            },
        }
        file = tmp_path / "contract.yaml"
        file.write_text(json.dumps(terms))
        contract = load_contract(file)
        evidence = Evidence(contract)
        (check,) = [check for check in checks_of(contract) if check.id == f"packing::{name}"]
        verdict = check.run(evidence)
        return to_record(check, verdict), "\n".join(verdict_lines(check, verdict, contract))

    return judged


# 40 leaves 24, 30 leaves 34, 28 goes there and leaves 6; 6 fits both rows.
APART = (40, 30, 28, 6)


def test_the_reference_packer_is_named_and_its_rows_are_optimal(judge):
    record, _ = judge(APART, "max_rows_over_optimal", 0)
    assert record["outcome"] == "passed"
    assert (
        record["headline"] == "max_rows_over_optimal 0; this packer is exactly first-fit decreasing; optimal"
    )
    assert record["context"] == [
        "2 rows of at most 64 tokens, 104 in all",
        "this packer is exactly first-fit decreasing",
        "optimal: whole samples need 2 rows at least",
    ]


def test_best_fit_decreasing_is_told_from_first_fit(judge):
    record, _ = judge(APART, "max_rows_over_bound", 1.0, packer="bfd")
    assert (
        record["headline"] == "max_rows_over_bound 1 ×; this packer is exactly best-fit decreasing; optimal"
    )


def test_what_does_not_fit_the_first_line_stands_below(judge):
    record, _ = judge([64, 60], "max_rows_over_optimal", 0)
    assert record["headline"] == "max_rows_over_optimal 0; optimal"
    assert "this packer is exactly first-fit decreasing and best-fit decreasing" in record["context"]


@pytest.mark.parametrize(
    ("name", "value", "first"),
    [
        ("max_rows_over_optimal", 1, "max_rows_over_optimal 2 > 1  (4 rows, at least 2)"),
        ("max_rows_over_bound", 1.5, "max_rows_over_bound 2 × > 1.5 ×  (4 rows, at least 2)"),
        ("min_utilization", 0.5, "min_utilization 40.62 % < 50 %  (4 rows)"),
    ],
)
def test_a_failure_says_how_many_rows_are_too_many(judge, name, value, first):
    record, text = judge(APART, name, value, packer="none")
    assert record["outcome"] == "failed"
    assert record["headline"] == first
    assert "  this packer uses 2 rows more than first-fit decreasing\n" in text
    assert "  within 2 rows of optimal: whole samples need 2 rows at least\n" in text


def test_padding_says_nothing_of_the_packer(judge):
    record, _ = judge(APART, "max_padding_ratio", 0.5)
    assert record["headline"] == "max_padding_ratio 0 %"
    assert record["context"] == ["2 rows of at most 64 tokens, 104 in all"]


def test_the_packer_of_trl_is_best_fit_decreasing_within_a_map_batch(judge):
    pytest.importorskip("trl")
    record, _ = judge(APART, "max_rows_over_optimal", 0, packer="trl_bfd")
    assert record["context"][1] == "this packer is exactly best-fit decreasing"
    record, text = judge(APART, "max_rows_over_optimal", 0, packer="trl_bfd", map_kwargs={"batch_size": 1})
    assert record["measured"] == 2
    assert "this packer uses 2 rows more than first-fit decreasing" in text
