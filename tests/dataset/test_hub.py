from __future__ import annotations

import sys
from types import SimpleNamespace

import pyarrow
import pytest

from pytest_longctx.errors import DatasetError, MissingExtraError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PINNED = {"path": "org/chats", "revision": COMMIT, "split": "train"}


@pytest.fixture
def calls(monkeypatch):
    """The calls of a stand-in for `datasets`, which gives two rows."""
    made = []

    def load_dataset(*args, **kwargs):
        made.append((args, kwargs))
        return [{"text": "a"}, {"text": ""}]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return made


def test_rows_are_streamed_at_the_pinned_revision(opened, calls):
    dataset = opened(**PINNED, config="en")
    assert [(item.id, getattr(item, "kind", "")) for item in dataset] == [
        ("train:1", ""),
        ("train:2", "empty_row"),
    ]
    expected = (("org/chats",), {"name": "en", "revision": COMMIT, "split": "train", "streaming": True})
    assert calls == [expected, expected]
    assert dataset.files == ()


def test_fingerprint_is_that_of_the_pin(opened, calls):
    other = opened(**{**PINNED, "revision": COMMIT[::-1]}).fingerprint()
    assert opened(**PINNED).fingerprint() == opened(**PINNED).fingerprint() != other


def test_hub_that_cannot_be_reached(opened, monkeypatch):
    def load_dataset(*args, **kwargs):
        raise ConnectionError("Couldn't reach 'org/chats' on the Hub (offline)\nmore")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(DatasetError) as caught:
        opened(**PINNED)
    assert str(caught.value) == (
        f"dataset org/chats (revision {COMMIT}, split train) cannot be read from the Hub: "
        "Couldn't reach 'org/chats' on the Hub (offline)\n"
        "Check the id, the revision and the network, or download it and give dataset.path as a folder"
    )


def test_hub_that_breaks_off_while_rows_are_read(opened, monkeypatch):
    def rows():
        yield {"text": "a"}
        raise ConnectionError("reset")

    stand_in = SimpleNamespace(load_dataset=lambda *args, **kwargs: rows())
    monkeypatch.setitem(sys.modules, "datasets", stand_in)
    with pytest.raises(DatasetError, match=r"cannot be read from the Hub: reset"):
        opened(**PINNED)


def test_a_value_that_its_column_does_not_take_is_not_quoted(opened, monkeypatch):
    def load_dataset(*args, **kwargs):
        pyarrow.array([1, "my secret"])

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(DatasetError, match="from the Hub: its text may quote rows") as caught:
        opened(**PINNED)
    assert "secret" not in str(caught.value)


def test_absent_extra(opened, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        MissingExtraError, match=r"dataset org/chats on the Hub needs datasets.*pytest-longctx\[hub\]"
    ):
        opened(**PINNED)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"split": None}, r"dataset\.split is missing: a Hub id \(org/chats\) needs a split"),
        ({"path": ["a/b", "c/d"]}, r"dataset\.path: 2 paths with a revision; expected one Hub id"),
    ],
)
def test_hub_ids_that_are_not_complete(opened, keys, message):
    with pytest.raises(DatasetError, match=message):
        opened(**{**PINNED, **keys})
