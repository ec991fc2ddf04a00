"""What cannot be checked is an error that names the packer or collator; nothing passes for want of data."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.errors import LongctxError, PackingError
from pytest_longctx.extensions import merge
from pytest_longctx.packing.collators import build_collator, padded
from pytest_longctx.packing.names import PACKERS
from pytest_longctx.testing import EXAMPLE, failing_checks
from pytest_longctx.testing.conformance import reference_packer


def message(packer=reference_packer, collator=padded):
    with pytest.raises(PackingError) as caught:
        failing_checks(packer, collator)
    return str(caught.value)


def midway(samples, max_tokens_per_bin):
    yield from list(reference_packer(samples, max_tokens_per_bin))[:2]
    raise RuntimeError("disk full")


@pytest.mark.parametrize(
    ("packer", "expected"),
    [
        (
            lambda samples, capacity: None,
            "packer of yours gave NoneType, expected an iterable of packed rows",
        ),
        (
            lambda samples, capacity: {"input_ids": []},
            "packer of yours gave dict, expected an iterable of packed rows",
        ),
        (
            lambda samples, capacity: [],
            "pipeline of yours delivered no batch, expected the 14 samples it was given",
        ),
        (
            lambda samples, capacity: ["row"],
            "packer of yours: row 0 is a str, expected a mapping with input_ids and labels",
        ),
        (midway, "packer of yours raised RuntimeError: disk full"),
        (lambda samples: [], "pipeline of yours raised TypeError"),
    ],
)
def test_packers(packer, expected):
    assert message(packer).startswith(expected)


def raises(rows):
    raise KeyError("pad")


@pytest.mark.parametrize(
    ("collator", "expected"),
    [
        (
            lambda rows: None,
            "collator of yours gave a NoneType, expected a mapping with input_ids and labels",
        ),
        (lambda rows: {}, "pipeline of yours: the batch has no input_ids; it holds nothing"),
        (raises, "collator of yours raised KeyError: 'pad'"),
        (lambda rows: {"input_ids": [[1]]}, "pipeline of yours: the batch has no labels; it holds input_ids"),
        (
            lambda rows: {**padded(rows), "attention_mask": np.full((1, 24), np.nan)},
            "pipeline of yours: attention_mask holds NaN",
        ),
    ],
)
def test_collators(collator, expected):
    first = message(lambda samples, capacity: list(reference_packer(samples, capacity))[:1], collator)
    assert first.startswith(expected)


def test_registered_names_are_unique():
    mine = {"mine": padded}
    assert merge("packer", PACKERS, [mine]) == mine
    with pytest.raises(
        LongctxError, match="the packer 'ffd' ships with pytest-longctx; register yours under another"
    ):
        merge("packer", PACKERS, [{"ffd": padded}])
    with pytest.raises(LongctxError, match="the packer 'mine' was registered already"):
        merge("packer", PACKERS, [mine, mine])
    with pytest.raises(LongctxError, match="the packer 'mine' is a int, expected a callable"):
        merge("packer", PACKERS, [{"mine": 3}])


def test_settings_that_a_collator_does_not_take():
    pytest.importorskip("trl")
    with pytest.raises(PackingError, match=r"packing\.collator: trl_padding_free does not take"):
        build_collator("trl_padding_free", {"pads": 1}, 0)


def test_a_reference_packer_is_given_what_fits_no_row():
    with pytest.raises(PackingError, match="packer of yours raised ValueError: length 9 at index 0 exceeds"):
        failing_checks(lambda samples, capacity: reference_packer(samples, 5))


def test_all_samples_of_the_example_are_admitted_but_one():
    assert len(EXAMPLE.admitted) == 14
