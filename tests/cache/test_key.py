"""A row's key follows from its content alone; a settings key from everything else that shapes an entry."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import pytest

from pytest_longctx.cache import key
from pytest_longctx.cache.key import row_key, settings_key
from pytest_longctx.contract import SupervisionSection
from pytest_longctx.dataset import Conversation
from tests.tokens.characters import CHATML, characters, chat

ROW = chat("hi", "yo", name="first")


def test_id_place_and_slice_are_no_content():
    moved = replace(ROW, id="second", file="other.jsonl", number=7, slice="news")
    assert row_key(moved) == row_key(ROW)
    assert len(row_key(ROW)) == 16


@pytest.mark.parametrize(
    "other",
    [
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "you"}]},
        {"messages": [{"content": "hi", "role": "user"}, {"role": "assistant", "content": "yo"}]},
        {"tools": [{"type": "function"}]},
        {"template_kwargs": {"enable_thinking": False}},
        {"messages": None, "text": "hiyo"},
        {"messages": None, "prompt": "hi", "completion": "yo"},
        {"messages": None, "prompt": "hiyo", "completion": ""},
        {"messages": None, "input_ids": [1, 2], "labels": [1, 2]},
        {"messages": None, "input_ids": [1, 2], "labels": [-100, 2]},
    ],
)
def test_other_content_has_another_key(other):
    assert row_key(replace(ROW, **other)) != row_key(ROW)


def test_values_that_look_alike_have_keys_of_their_own():
    values = [1, True, 1.0, "1", None, 0, False, -0.0, 0.0, math.nan, [], {}, [[]], 2**70, 2**70 + 1]
    keys = {row_key(replace(ROW, template_kwargs={"value": value})) for value in values}
    assert len(keys) == len(values)


def test_equal_content_from_other_objects_has_the_same_key():
    word = "".join(["us", "er"])  # not the interned text of the source
    twice = [word, word]
    one = Conversation("a", "", 1, messages=[{"role": twice[0], "content": twice[1]}])
    other = Conversation("a", "", 1, messages=[{"role": "user", "content": "".join(["use", "r"])}])
    assert row_key(one) == row_key(other)


def test_what_is_no_json_has_no_key():
    assert row_key(replace(ROW, template_kwargs={"day": date(2026, 1, 1)})) is None


def test_settings_that_shape_entries():
    plain, terms = characters(), SupervisionSection()
    keys = {
        settings_key(plain, terms),
        settings_key(replace(plain, fingerprint="sha256:1"), terms),
        settings_key(plain, SupervisionSection(turns="last")),
        settings_key(plain, SupervisionSection(marker="x")),
    }
    assert len(keys) == 4
    assert settings_key(characters(), SupervisionSection()) in keys


def test_another_release_of_this_package_or_of_a_library_trusts_nothing(monkeypatch):
    before = settings_key(characters(), SupervisionSection())
    monkeypatch.setattr(key, "_code", lambda: "another")
    code = settings_key(characters(), SupervisionSection())
    monkeypatch.undo()
    monkeypatch.setattr(key, "version", lambda name: "0.0.1")
    assert len({before, code, settings_key(characters(), SupervisionSection())}) == 3


@pytest.mark.parametrize("unsteady", ["{{ strftime_now('%d') }}", "{{ [1, 2] | random }}"])
def test_a_template_that_is_no_function_of_the_row_is_not_cached(unsteady):
    assert settings_key(characters(unsteady + CHATML), SupervisionSection()) is None
