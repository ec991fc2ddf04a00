"""Hashes of spans: equal for equal tokens, wherever they lie, and for no others."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from pytest_longctx.packing.hashing import mixed, prefix_hashes, span_hashes, unordered_hashes


def spans(ids, *edges):
    starts, ends = np.array(edges).reshape(-1, 2).T
    return span_hashes(prefix_hashes(np.array(ids)), starts, ends).tolist()


def test_each_id_has_a_number_of_its_own():
    numbers = mixed(np.arange(-1, 300_000))
    assert len(np.unique(numbers)) == len(numbers)
    assert numbers.dtype == np.uint64
    # All 64 bits are used: about half of each in so many numbers.
    bits = np.unpackbits(numbers.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert bits[:8].min() > 0.4
    assert bits.max() < 0.6


def test_a_span_has_the_same_hash_wherever_it_lies():
    found = spans([7, 8, 9, 1, 7, 8, 9], (0, 3), (4, 7), (0, 2), (4, 6), (1, 3), (3, 4))
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(set(found)) == 4
    assert spans([0, 0, 7, 8, 9], (2, 5)) == found[:1]


@pytest.mark.parametrize("token", range(8))
def test_a_token_has_the_same_hash_at_even_and_odd_places(token):
    assert len(set(spans([token] * 4, (0, 1), (1, 2), (2, 3), (3, 4)))) == 1


def test_an_empty_span_is_nothing():
    assert spans([7, 8], (0, 0), (1, 1), (2, 2)) == [0, 0, 0]


def test_order_and_length_tell_spans_apart():
    texts = [text for size in (1, 2, 3, 4) for text in product(range(5), repeat=size)]
    found = {spans(text, (0, len(text)))[0] for text in texts}
    assert len(found) == len(texts)


def test_spans_far_into_a_row():
    ids = np.arange(5_000) % 977
    starts = np.array([0, 977, 1_954, 3_908])
    found = span_hashes(prefix_hashes(ids), starts, starts + 900)
    assert len(set(found.tolist())) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_without_order_only_the_numbers_count(size):
    def told(ids):
        return int(unordered_hashes(np.array([9, *ids, 9]), np.array([1]), np.array([1 + size]))[0])

    bags = list(combinations_with_replacement(range(30), size))
    assert len({told(bag) for bag in bags}) == len(bags)  # also where their sums are equal
    assert all(told(bag) == told(bag[::-1]) for bag in bags)


def test_without_order_the_place_does_not_count():
    ids, starts, ends = (
        np.array([7, 8, 9, 1, 9, 8, 7, 8]),
        np.array([0, 4, 1, 5, 3]),
        np.array([3, 7, 3, 7, 3]),
    )
    first, again, two, others, none = unordered_hashes(ids, starts, ends).tolist()
    assert first == again
    assert len({first, two, others, none}) == 4
    assert none == 0
