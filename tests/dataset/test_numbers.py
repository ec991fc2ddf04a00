from __future__ import annotations

import pytest

from pytest_longctx.dataset.fault import RowError
from pytest_longctx.dataset.numbers import lengths, tokenized

IDS = [11, 12, 13]


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        ({"labels": [-100, 12, 13]}, [-100, 12, 13]),
        ({"labels": [0, 0, 0], "assistant_masks": [0, 0, 1]}, [0, 0, 0]),
        ({"assistant_masks": [0, 1, 1]}, [-100, 12, 13]),
        ({"completion_mask": [0, 0, 1]}, [-100, -100, 13]),
        ({"completion_mask": [0, 1, 1], "assistant_masks": [1, 1, 0]}, [-100, 12, -100]),
        ({"labels": None, "completion_mask": [1, 1, 1]}, [11, 12, 13]),
    ],
)
def test_labels(columns, labels):
    assert tokenized({"input_ids": IDS, **columns}) == {"input_ids": IDS, "labels": labels}


@pytest.mark.parametrize(
    ("row", "kind", "text"),
    [
        ({"labels": [1]}, "missing_keys", "lacks input_ids"),
        (
            {"input_ids": IDS},
            "missing_keys",
            "lacks labels, assistant_masks, completion_mask; the row has input_ids",
        ),
        ({"input_ids": [], "labels": []}, "empty_row", "input_ids is empty"),
        ({"input_ids": IDS, "labels": [1, 2]}, "length_mismatch", "labels has 2 entries, input_ids has 3"),
        ({"input_ids": IDS, "completion_mask": [1] * 4}, "length_mismatch", "completion_mask has 4 entries"),
        ({"input_ids": IDS, "completion_mask": []}, "length_mismatch", "completion_mask has 0 entries"),
        (
            {"input_ids": [1, -1], "labels": [1, 1]},
            "bad_tokens",
            "input_ids holds -1; expected 0 to 2147483647",
        ),
        ({"input_ids": [1, 2**31], "labels": [1, 1]}, "bad_tokens", "input_ids holds 2147483648"),
        ({"input_ids": [1, 10**30], "labels": [1, 1]}, "bad_tokens", "input_ids holds 1000"),
        ({"input_ids": [1, 2], "labels": [1, -101]}, "bad_tokens", "labels holds -101; expected -100 to"),
        ({"input_ids": [1, 2.0], "labels": [1, 2]}, "bad_tokens", "input_ids holds a number (float)"),
        ({"input_ids": [1, True], "labels": [1, 2]}, "bad_tokens", "input_ids holds a boolean"),
        ({"input_ids": [1, None], "labels": [1, 2]}, "bad_tokens", "input_ids holds null"),
        ({"input_ids": "1 2", "labels": [1, 2]}, "bad_tokens", "input_ids is a text"),
        (
            {"input_ids": IDS, "completion_mask": [0, 1, 2]},
            "bad_tokens",
            "completion_mask holds 2; expected 0 and 1",
        ),
    ],
)
def test_tokens_that_cannot_be_used(row, kind, text):
    with pytest.raises(RowError) as caught:
        tokenized(row)
    assert caught.value.kind == kind
    assert text in caught.value.message


def test_lengths():
    assert lengths({"prompt_tokens": 0, "supervised_tokens": 1, "x": 2}) == {
        "prompt_tokens": 0,
        "supervised_tokens": 1,
    }
    most = {"prompt_tokens": 2**31 - 2, "supervised_tokens": 1}
    assert lengths(most) == most


@pytest.mark.parametrize(
    ("row", "kind", "text"),
    [
        ({"prompt_tokens": 3}, "missing_keys", "lacks supervised_tokens; the row has prompt_tokens"),
        (
            {"prompt_tokens": -1, "supervised_tokens": 3},
            "bad_lengths",
            "prompt_tokens is -1; expected 0 or more",
        ),
        (
            {"prompt_tokens": 3, "supervised_tokens": 0},
            "bad_lengths",
            "supervised_tokens is 0; expected 1 or more",
        ),
        (
            {"prompt_tokens": 3.0, "supervised_tokens": 1},
            "bad_lengths",
            "prompt_tokens is a number; expected a whole number",
        ),
        ({"prompt_tokens": True, "supervised_tokens": 1}, "bad_lengths", "prompt_tokens is a boolean"),
        (
            {"prompt_tokens": 3_000_000_000, "supervised_tokens": 1},
            "bad_lengths",
            "prompt_tokens is 3000000000, supervised_tokens is 1; expected at most 2,147,483,647 tokens",
        ),
        (
            {"prompt_tokens": 2**31 - 1, "supervised_tokens": 1},
            "bad_lengths",
            "supervised_tokens is 1; expected at most 2,147,483,647 tokens in all",
        ),
        (
            {"prompt_tokens": 0, "supervised_tokens": 2**63},
            "bad_lengths",
            "supervised_tokens is 9223372036854775808; expected at most",
        ),
    ],
)
def test_lengths_that_cannot_be_used(row, kind, text):
    with pytest.raises(RowError) as caught:
        lengths(row)
    assert caught.value.kind == kind
    assert text in caught.value.message
