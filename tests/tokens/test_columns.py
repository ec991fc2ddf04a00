"""Columns of texts, beside lists of the same texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_longctx.tokens.columns import Repeated, Texts

# Half a surrogate pair is what JSON can spell, and UTF-8 cannot.
TEXTS = st.lists(st.text(max_size=5) | st.sampled_from(["", "a", "é", "🙂", "\ud800"]), max_size=12)


@pytest.mark.parametrize("column", [Texts, Repeated])
@given(texts=TEXTS, data=st.data())
def test_a_column_is_a_list_of_its_texts(column, texts, data):
    found = column(texts)
    assert list(found) == texts
    assert len(found) == len(texts)
    part = data.draw(st.slices(len(texts)))
    assert found[part] == texts[part]
    places = data.draw(st.lists(st.integers(0, len(texts) - 1))) if texts else []
    chosen = found.select(np.array(places, dtype=np.int64))
    assert list(chosen) == [texts[place] for place in places]
    assert isinstance(chosen, column)
    chosen.append("new")
    assert [list(chosen)[-1], list(found)] == ["new", texts]


@pytest.mark.parametrize("column", [Texts, Repeated])
def test_places_are_those_of_a_list(column):
    found = column(["a", "b", "c"])
    assert found[-1] == "c"
    assert found[1] == "b"
    with pytest.raises(IndexError):
        found[3]


def test_places_by_value():
    found = Repeated(["web", "book", "web"])
    assert {value: places.tolist() for value, places in found.groups().items()} == {
        "book": [False, True, False],
        "web": [True, False, True],
    }
    assert list(found.groups()) == ["book", "web"]
    assert found.where("book").tolist() == [False, True, False]
    assert found.where("radio").tolist() == [False] * 3
    assert Repeated().where("web").tolist() == []
    assert list(found.select(np.array([0, 2])).groups()) == ["web"]
    assert Repeated().groups() == {}
