"""Rows taken apart where tokens, pieces or samples are hundreds or thousands, and where one token decides."""

from __future__ import annotations

import pytest

from pytest_longctx.packing import fragments
from tests.packing.test_fragments_by_hand import NOTHING, apart, of, part


def test_hundreds_of_pieces_and_a_foreign_token_behind_them():
    pieces = [(at, at + 2, 0, 0) for at in range(0, 300, 2)]
    assert apart(of([1, 2]), [1, 2] * 150 + [70]) == [*pieces, (300, 301, -1, 0)]


def test_no_sample_comes_after_the_last_of_hundreds():
    found = of(*([one] for one in range(300)))
    assert apart(found, [299, 298]) == [(0, 1, 299, 0), (1, 2, 298, 0)]


def test_foreign_tokens_are_joined_wherever_their_stretch_starts():
    """It starts at token 1; a foreign token ends 1 token behind that, and joined with the next two, 3."""
    assert apart(of([1, 2, 3], [4, 5]), [70, 71, 2, 72, 4, 5], 1) == [(1, 4, -1, 0), (4, 6, 1, 0)]


@pytest.mark.parametrize("seen", [0, 1])
def test_the_last_token_of_several_samples(seen):
    found = of([1, 2], [3, 2])
    found.index.delivered[seen] = 1
    assert part(found, [2]) == (1 - seen, 1, 1)


@pytest.mark.parametrize(("tokens", "found"), [(16_384, (0, 16_382, 2)), (16_385, NOTHING)])
def test_two_tokens_that_end_a_sample_are_looked_up_among_16384(tokens, found):
    assert part(of(range(tokens)), [tokens - 2, tokens - 1]) == found


def test_the_index_takes_about_a_gigabyte_at_most():
    """While it is made, some eight arrays of eight bytes a token are held."""
    assert fragments.MOST_TOKENS == 16_000_000


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_a_sample_that_begins_like_another(order):
    """As a chat cut after each of its turns; a stretch without borders may begin with either."""
    samples = {"a": [1, 2], "b": [5, 6], "c": [1, 2, 3]}
    found = of(*samples.values())
    pieces = apart(found, [token for name in order for token in samples[name]])
    assert ["abc"[sample] for _, _, sample, _ in pieces] == list(order)
    assert found.index.delivered.tolist() == [1, 1, 1]
