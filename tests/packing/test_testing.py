from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing.collators import padded
from pytest_longctx.testing import EXAMPLE, Case, assert_collator, assert_packer, failing_checks


def next_fit(samples, max_tokens_per_bin):
    """A packer as a user writes one."""
    row = []
    for sample in samples:
        if sum(len(part["input_ids"]) for part in [*row, sample]) > max_tokens_per_bin:
            yield joined(row)
            row = []
        row.append(sample)
    yield joined(row)


def joined(parts):
    columns = {name: np.concatenate([part[name] for part in parts]) for name in ("input_ids", "labels")}
    return {**columns, "seq_lengths": [len(part["input_ids"]) for part in parts]}


def forgetful(samples, max_tokens_per_bin):
    """The last row is never given out."""
    yield from list(next_fit(samples, max_tokens_per_bin))[:-1]


def test_sound_packer_and_collator_pass():
    assert_packer(next_fit)
    assert_collator(padded)


def test_packer_that_forgets_samples_is_named_with_them():
    with pytest.raises(AssertionError) as caught:
        assert_packer(forgetful)
    assert str(caught.value) == (
        "1 checks fail (collator padded, batches of 1)\n"
        "sample_conservation: sample 13: expected 6 tokens once, found lost; "
        "sample 14: expected 6 tokens once, found lost"
    )


def test_own_samples_and_capacity():
    samples = [{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, {"input_ids": [8, 9], "labels": [-100, 9]}]
    assert_packer(next_fit, samples, max_tokens_per_bin=3)
    with pytest.raises(AssertionError, match="capacity: row 0: expected 3, found 5"):
        assert_packer(lambda samples, most: next_fit(samples, 5), samples, max_tokens_per_bin=3)


def test_collator_that_masks_too_much_is_named():
    def masking(rows):
        return {**padded(rows), "labels": np.full_like(padded(rows)["labels"], -100)}

    with pytest.raises(AssertionError, match="3 checks fail") as caught:
        assert_collator(masking)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()[1:]] == [
        "labels_preserved",
        "supervision_per_row",
        "target_count",
    ]


def test_failing_checks_are_judged_on_a_case_of_ones_own():
    case = Case([{"input_ids": [5, 6], "labels": [-100, -100]}], 4)
    assert [witness.note for witness in failing_checks(case=case)["supervision_per_row"]] == ["sample 0"]


def test_example_has_what_packers_stumble_over():
    lengths = EXAMPLE.expected.lengths
    assert (lengths == 0).any()
    assert EXAMPLE.rows[13] == EXAMPLE.rows[14]
    assert 0 < lengths[11] == EXAMPLE.capacity < len(EXAMPLE.rows[11]["input_ids"])
