"""Trainers that others wrote: what they raise, lack or give wrongly is told by their name, check by check."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from pytest_longctx import check_contract
from pytest_longctx.errors import PackingError
from pytest_longctx.extensions import Extensions
from pytest_longctx.packing.audit import Delivery, audit
from pytest_longctx.packing.batch import read_row
from pytest_longctx.packing.collators import padded
from pytest_longctx.packing.pipeline import trainer_pipeline
from pytest_longctx.testing.examples import Case
from tests.packing.deliveries import ROWS, row_of

EXAMPLES = Path(__file__).parents[2] / "examples"
CASE = Case(ROWS[:2], capacity=8)
ROW = row_of(0, 1)


class Sound:
    maker = "my loop"

    def __init__(self, request):
        self.request = request

    def deliver(self):
        yield Delivery([read_row(ROW, self.maker, 0)], padded([ROW]))

    def window(self):
        return 8

    def make_batch(self, samples):
        return padded([ROW])


def pipeline(**changed):
    """The pipeline of a trainer with other members than those of a sound one."""
    return trainer_pipeline(type("Changed", (Sound,), changed), None, "mine", CASE.expected)


def fails(*_):
    raise RuntimeError("lost")


THERE = f"(test_trainers_of_others.py:{fails.__code__.co_firstlineno + 1})"


def test_a_sound_trainer():
    sound = pipeline()
    assert +sound.audit(CASE.samples).counts == {}
    assert [sound.maker, sound.window()] == ["my loop", 8]
    assert sound.make_batch([])["input_ids"].shape == (1, 8)


@pytest.mark.parametrize(
    ("window", "found"),
    [(lambda self: None, None), (lambda self: 9, 9), (lambda self: np.int64(8), 8), (lambda self: 0, 0)],
)
def test_limits_of_a_trainer(window, found):
    told = pipeline(window=window).window()
    assert told == found
    assert type(told) in (int, type(None))


def test_rows_or_a_batch_may_be_left_out():
    row, batch = read_row(ROW, "mine", 0), padded([ROW])
    own = pipeline(deliver=lambda self: [Delivery(rows=[row]), Delivery(batch=batch)])
    found = own.audit(CASE.samples)
    assert (+found.counts, found.rows, found.batches) == ({}, 1, 1)


# The second sample ends with 22, and 22 stands behind it where its row is shorter than that of the first.
APART = [row_of(0), row_of(1)]
PADDED_WITH_22 = {name: padded(APART, pad_token_id=22)[name] for name in ("input_ids", "labels")}


@pytest.mark.parametrize(
    ("told", "pad", "sound"),
    [({}, 0, False), ({"pad_token_id": None}, 0, False), ({"pad_token_id": 22}, 22, True)],
)
def test_what_a_trainer_pads_with(told, pad, sound):
    rows = [read_row(row, "mine", number) for number, row in enumerate(APART)]
    own = pipeline(deliver=lambda self: [Delivery(rows, PADDED_WITH_22)], **told)
    assert own.pad_token_id() == pad
    assert (+own.audit(CASE.samples).counts == {}) is sound


@pytest.mark.parametrize(
    ("pad", "words"),
    [
        ("<pad>", "my loop: pad_token_id is a str, '<pad>'; expected the id of a token, or None"),
        (property(fails), f"my loop: pad_token_id raised RuntimeError: lost {THERE}"),
    ],
)
def test_a_padding_that_is_none(pad, words):
    with pytest.raises(PackingError) as told:
        pipeline(pad_token_id=pad).pad_token_id()
    assert str(told.value) == words


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (4096, "my loop: window is a int, expected a method"),
        (None, "my loop: window is a NoneType, expected a method"),
        (
            lambda self: "4096",
            "my loop: window() gave a str, '4096'; expected a whole number of tokens, or None",
        ),
        (lambda self: 8.0, "my loop: window() gave a float, 8.0; expected a whole number of tokens, or None"),
        (
            lambda self: True,
            "my loop: window() gave a bool, True; expected a whole number of tokens, or None",
        ),
        (fails, f"my loop: window() raised RuntimeError: lost {THERE}"),
    ],
)
def test_a_limit_that_is_none(window, words):
    with pytest.raises(PackingError) as told:
        pipeline(window=window).window()
    assert str(told.value) == words


@pytest.mark.parametrize(
    ("make_batch", "words"),
    [
        (None, "my loop: make_batch is a NoneType, expected a method"),
        (fails, f"my loop: make_batch() raised RuntimeError: lost {THERE}"),
        (
            lambda self, rows: [1],
            "my loop: make_batch() gave a list, expected a mapping with input_ids and labels",
        ),
    ],
)
def test_a_batch_that_is_none(make_batch, words):
    with pytest.raises(PackingError) as told:
        pipeline(make_batch=make_batch).make_batch([])
    assert str(told.value) == words


def test_a_trainer_that_cannot_be_made():
    with pytest.raises(PackingError, match=re.escape(f"mine raised RuntimeError: lost {THERE}")):
        pipeline(__init__=fails)
    with pytest.raises(PackingError, match=r"^trainer mine raised AttributeError: .* no attribute 'maker'$"):
        trainer_pipeline(lambda request: object(), None, "mine", CASE.expected)


def test_a_trainer_that_delivers_nothing_readable():
    for deliver, words in (
        (fails, f"^{re.escape(f'my loop: deliver() raised RuntimeError: lost {THERE}')}$"),
        (None, r"^my loop: deliver is a NoneType, expected a method$"),
        (lambda self: None, r"^my loop raised TypeError: 'NoneType' object is not iterable$"),
    ):
        with pytest.raises(PackingError, match=words):
            pipeline(deliver=deliver).audit(CASE.samples)


@pytest.mark.parametrize(
    ("delivery", "words"),
    [
        (padded([ROW]), "mine delivered a dict, expected Delivery(rows, batch)"),
        (None, "mine delivered a NoneType, expected Delivery(rows, batch)"),
        (([], {}), "mine delivered a tuple, expected Delivery(rows, batch)"),
        (Delivery(), "mine gave a NoneType, expected a mapping with input_ids and labels"),
        (
            Delivery([ROW], padded([ROW])),
            "mine delivered a dict among its rows, expected a PackedRow, as "
            "pytest_longctx.packing.batch.read_row makes it of a mapping",
        ),
        (
            Delivery(iter([ROW]), padded([ROW])),
            "mine delivered rows as a list_iterator, expected a list of PackedRow",
        ),
        (
            Delivery([ROW["input_ids"]], None),
            "mine delivered a ndarray among its rows, expected a PackedRow, as "
            "pytest_longctx.packing.batch.read_row makes it of a mapping",
        ),
    ],
)
def test_what_is_no_delivery(delivery, words):
    with pytest.raises(PackingError) as told:
        audit([delivery], CASE.samples, CASE.expected, "mine")
    assert str(told.value) == words


@pytest.mark.parametrize("window", [4096, fails, lambda self: "4096"], ids=["attribute", "raises", "text"])
def test_a_limit_that_is_none_costs_no_other_verdict(tmp_path, window):
    (tmp_path / "data.jsonl").write_text('{"input_ids": [1, 2], "labels": [-100, 2]}\n')
    contract = {
        "contract": 1,
        "dataset": {"path": "data.jsonl"},
        "tokenizer": {"path": str(EXAMPLES / "tokenizer")},
        "packing": {"max_tokens_per_bin": 8, "trainer": "mine", "collator": "padded"},
    }
    (tmp_path / "contract.yaml").write_text(json.dumps(contract))

    def deliver(self):
        rows = list(self.request.pack())
        yield Delivery([read_row(rows[0], self.maker, 0)], self.request.collate(rows))

    changed = type("Changed", (Sound,), {"deliver": deliver, "window": window})
    report = check_contract(tmp_path / "contract.yaml", Extensions(trainers={"mine": changed}))
    packing = {result.check.name: result for result in report.results if result.check.section == "packing"}
    assert packing.pop("effective_window").error.startswith("my loop: window")
    assert {result.outcome for result in packing.values()} == {"passed"}
