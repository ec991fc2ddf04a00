from __future__ import annotations

import pytest

from pytest_longctx.checks import checks_of

from .conftest import example_rows, failing

pytest.importorskip("trl")

WINDOW = 1024


@pytest.fixture(scope="module")
def rows():
    return example_rows("support", 16)


def trainer(collator, **config):
    return {
        "max_tokens_per_bin": WINDOW,
        "batch_size": 2,
        "feed": "admitted",
        "packer": "ffd",
        "collator": collator,
        "trainer": {"name": "transformers", "config": config},
    }


@pytest.mark.parametrize("collator", ["trl_padding_free", "flattening", "padded", "block_mask"])
def test_lengths_are_kept_from_the_collator_by_default(make_evidence, rows, collator):
    """`remove_unused_columns` drops what the model does not take, the segment lengths among it."""
    evidence = make_evidence(rows, trainer(collator), WINDOW)
    assert {"position_ids", "mask_agrees"} <= failing(evidence)
    assert "sample_conservation" not in failing(evidence)
    kept = make_evidence(rows, trainer(collator, remove_unused_columns=False), WINDOW)
    assert failing(kept) == set()


def test_a_batch_that_is_dropped_is_missed(make_evidence, rows):
    config = {"remove_unused_columns": False, "dataloader_drop_last": True, "per_device_train_batch_size": 4}
    evidence = make_evidence(rows, trainer("padded", **config), WINDOW)
    assert evidence.audit.rows % 4, "the last batch is not full"
    assert failing(evidence) == {"sample_conservation"}


def test_it_has_no_window_of_its_own(make_evidence, rows):
    contract = make_evidence(rows, trainer("padded"), WINDOW).contract
    assert "effective_window" not in {check.name for check in checks_of(contract)}
