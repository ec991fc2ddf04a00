from __future__ import annotations

import os
import tempfile

import numpy as np
import pytest

from pytest_longctx.contract import SupervisionSection
from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.tokens.build import BLOCK, measure
from tests.tokens.characters import characters, chat, sample_of


def measured(rows, shape="messages", tokenizer=None, **keys):
    return measure(rows, shape, tokenizer or characters(), SupervisionSection(), **keys)


def test_columns_of_two_conversations():
    rows = [chat("hi", "yo", "so", "yes", name="a"), chat("hello", "", name="b")]
    ledger = measured(rows).ledger
    assert list(ledger.ids) == ["a", "b"]
    assert ledger.total.tolist() == [51, 26]
    assert ledger.template.tolist() == [40, 20]
    assert ledger.prompt.tolist() == [4, 5]
    assert ledger.supervised.tolist() == [7, 1]
    assert ledger.answer.tolist() == [5, 0]
    assert ledger.tail.tolist() == [[46, 50], [24, 25]]
    assert ledger.turns.tolist() == [[21, 24], [46, 50], [24, 25]]
    assert ledger.turn_offsets.tolist() == [0, 2, 3]
    assert (ledger.template + ledger.prompt + ledger.supervised).tolist() == ledger.total.tolist()


def test_a_sample_without_supervision_has_no_turns():
    row = Conversation("row", "f", 1, input_ids=[5, 6], labels=[-100, -100])
    ledger = measured([row], "tokenized").ledger
    assert ledger.turn_offsets.tolist() == [0, 0]
    assert ledger.tail.tolist() == [[0, 0]]
    assert ledger.supervised.tolist() == [0]


def test_tokens_are_those_of_the_samples():
    rows = [chat("hi", "yo", name="a"), chat("hello", "you", name="b")]
    samples = measured(rows).samples
    for index, row in enumerate(rows):
        alone = sample_of(row)
        ids, labels, kind = samples[index]
        assert ids.tolist() == alone.ids.tolist()
        assert labels.tolist() == alone.labels.tolist()
        assert kind.tolist() == alone.kind.tolist()
    assert len(samples) == 2
    assert samples.offsets.tolist() == [0, 25, 25 + 29]


def test_more_rows_than_a_block():
    rows = [chat("hi", "y" * (1 + number % 7), name=str(number)) for number in range(2 * BLOCK + 3)]
    ledger = measured(rows).ledger
    assert list(ledger.ids) == [row.id for row in rows]
    assert ledger.supervised.tolist() == [2 + number % 7 for number in range(len(rows))]


def test_lengths_need_no_tokenizer():
    rows = [Conversation(str(n), "f", n, prompt_tokens=n, supervised_tokens=2 * n) for n in (1, 4)]
    found = measure(
        [*rows, RowProblem("x", "f", 9, "bad_lengths", "no")], "lengths", None, SupervisionSection()
    )
    assert found.samples is None
    assert [found.rows, dict(found.rejected)] == [3, {"bad_lengths": 1}]
    ledger = found.ledger
    assert [ledger.template.tolist(), ledger.prompt.tolist()] == [[0, 0], [1, 4]]
    assert [ledger.supervised.tolist(), ledger.answer.tolist(), ledger.total.tolist()] == [
        [2, 8],
        [2, 8],
        [3, 12],
    ]
    assert ledger.tail.tolist() == ledger.turns.tolist() == [[1, 3], [4, 12]]


def test_rejected_rows_are_counted_and_leave_no_sample():
    drops = characters(
        "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}{# {% generation %} #}"
    )
    problem = RowProblem("x", "f", 1, "broken_json", "no")
    rows = [problem, chat({"role": "bot", "content": "yo"}), chat("hi", "yo", name="kept")]
    found = measured(rows, tokenizer=drops)
    assert found.rows == 3
    assert dict(found.rejected) == {"broken_json": 1, "empty_render": 1}
    assert [rejected.kind for rejected in found.problems] == ["broken_json", "empty_render"]
    assert list(found.ledger.ids) == ["kept"]


def test_no_rows_give_empty_columns():
    found = measured([])
    assert len(found.ledger) == 0
    assert len(found.samples) == 0
    assert found.samples.ids.dtype == np.int32
    assert found.ledger.turn_offsets.tolist() == [0]


def test_slices_go_along():
    rows = [chat("hi", "yo", name="a", slice="web"), chat("hi", "yo", name="b", slice="book")]
    assert list(measured(rows).ledger.slices) == ["web", "book"]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.skipif(os.name != "posix", reason="files that are in use have a name on Windows")
def test_tokens_on_disk_have_no_name(temporary):
    """So that nothing is left of them when the process is killed."""
    samples = measured([chat("hi", "yo")]).samples
    assert isinstance(samples.ids, np.memmap)
    assert len(samples[0].ids) == len(samples[0].labels) == len(samples[0].kind) == samples.ledger.total[0]
    assert list(temporary.iterdir()) == []


def test_nothing_is_left_when_the_rows_break(temporary):
    def rows():
        yield chat("hi", "yo")
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        measured(rows())
    assert list(temporary.iterdir()) == []


def test_without_inspections_the_ledger_is_the_same():
    rows = [chat("hi", ""), chat("hi", "yo")]
    plain = measured(rows, inspect=False)
    assert not plain.findings.counts
    assert plain.ledger.answer.tolist() == measured(rows).ledger.answer.tolist()
