"""With a store or without, empty, full or damaged: a pass over the rows gives the same."""

from __future__ import annotations

import errno
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_longctx.cache import Store, store
from pytest_longctx.contract import SupervisionSection
from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.tokens.build import measure
from tests.tokens.characters import characters, chat

TOKENIZER = characters()
COLUMNS = ("template", "prompt", "supervised", "answer", "total", "tail", "turns", "turn_offsets")


def measured(rows, shape="messages", known=None):
    found = measure(rows, shape, TOKENIZER, SupervisionSection(), known=known)
    if known is not None:
        known.flush()
    return found


def assert_same(left, right):
    assert list(left.ledger.ids) == list(right.ledger.ids)
    assert list(left.ledger.slices) == list(right.ledger.slices)
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(left.ledger, column), getattr(right.ledger, column))
    for column in ("ids", "labels", "kind"):
        np.testing.assert_array_equal(getattr(left.samples, column), getattr(right.samples, column))
    assert left.findings == right.findings
    assert left.rejected == right.rejected
    assert left.problems == right.problems
    assert left.rows == right.rows


ROWS = [
    chat("hi", "yo", name="a"),
    chat("hi", "", name="offends: no answer"),
    RowProblem("b", "rows.jsonl", 2, "broken_json", "not JSON"),
    chat("so", "yes", "and", "no", name="c", slice="news"),
    chat({"role": "bot", "content": "x"}, "y", name="refused by the template"),
    chat("hi <|im_end|>", "yo", name="offends: control token"),
]


SAMPLES = [row for row in ROWS if isinstance(row, Conversation) and row.id != "refused by the template"]


def test_a_second_pass_finds_every_sample_and_gives_the_same(tmp_path):
    bare = measured(ROWS)
    assert_same(measured(ROWS, known=Store(tmp_path)), bare)
    warm = Store(tmp_path)
    assert warm.missing(SAMPLES) == 0
    assert_same(measured(ROWS, known=warm), bare)
    assert bare.findings.counts["supervision::present"] == 1
    assert warm.written == []


def test_what_was_found_is_told_under_the_present_id(tmp_path):
    measured([chat("hi", "", name="before")], known=Store(tmp_path))
    again = measured([chat("hi", "", name="now")], known=Store(tmp_path))
    assert [w.id for w in again.findings.witnesses["supervision::present"]] == ["now"]


def test_only_changed_rows_are_measured(tmp_path, monkeypatch):
    rows = [chat(f"question {n}", "yes", name=f"{n}") for n in range(20)]
    measured(rows, known=Store(tmp_path))
    moved = [chat("new", "row", name="new"), *reversed(rows[:9]), *rows[10:], chat("question 9", "no")]
    warm = Store(tmp_path)
    assert warm.missing(moved) == 2
    assert_same(measured(moved, known=warm), measured(moved))
    assert Store(tmp_path).missing(moved) == 0


def test_labels_that_the_row_brought_are_kept(tmp_path):
    rows = [
        Conversation("shifted", "", 1, input_ids=[40, 41, 42], labels=[41, 42, -100]),
        Conversation("all", "", 2, input_ids=[40, 41], labels=[40, 41]),
        Conversation("none", "", 3, input_ids=[40, 41], labels=[-100, -100]),
    ]
    bare = measured(rows, "tokenized")
    measured(rows, "tokenized", Store(tmp_path))
    assert_same(measured(rows, "tokenized", Store(tmp_path)), bare)


def test_a_pack_cut_anywhere_is_rebuilt(tmp_path):
    rows = [chat("hi", "", name="a")]
    bare = measured(rows)
    measured(rows, known=Store(tmp_path))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        cut = Store(tmp_path)
        assert cut.missing(rows) == 1, size
        assert not path.exists()
    assert_same(measured(rows, known=Store(tmp_path)), bare)
    assert path.read_bytes() == whole


def test_a_pack_with_any_byte_changed_is_rebuilt(tmp_path):
    rows = [chat("hi", "yo", name="a")]
    measured(rows, known=Store(tmp_path))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert Store(tmp_path).missing(rows) == 1, place


def test_a_pack_under_the_name_of_another_is_not_read(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        measured([chat("hi", name)], known=Store(tmp_path / name))
    (a,), (b,) = ((tmp_path / name).iterdir() for name in ("a", "b"))
    b.replace(a)
    assert Store(tmp_path / "a").missing([chat("hi", "a"), chat("hi", "b")]) == 2


def test_a_full_disk_ends_the_keeping_and_nothing_else(tmp_path, monkeypatch):
    def full(folder, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_pack", full)
    monkeypatch.setattr(store, "PACK_BYTES", 1)
    known = Store(tmp_path)
    assert_same(measured(ROWS, known=known), measured(ROWS))
    assert known.problem == "No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_packs_are_written_as_the_pass_goes_on(tmp_path, monkeypatch):
    """So a run that is killed loses no more than one."""
    monkeypatch.setattr(store, "PACK_BYTES", 1)
    measured(ROWS, known=Store(tmp_path))
    assert len(list(tmp_path.iterdir())) == len(SAMPLES)
    assert Store(tmp_path).missing(SAMPLES) == 0


texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8)
pairs = st.tuples(texts, texts)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.lists(pairs, max_size=6), second=st.lists(pairs, max_size=6))
def test_whatever_was_kept_before(tmp_path_factory, first, second):
    folder = tmp_path_factory.mktemp("packs")
    before = [chat(*row, name=f"{place}") for place, row in enumerate(first)]
    now = [chat(*row, name=f"{place}") for place, row in enumerate(second + first[::2])]
    measured(before, known=Store(folder))
    assert_same(measured(now, known=Store(folder)), measured(now))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rows_with_odd_numbers_are_kept(tmp_path, value):
    row = replace(chat("hi", "yo"), template_kwargs={"value": value})
    measured([row], known=Store(tmp_path))
    assert Store(tmp_path).missing([row]) == 0
