"""Which sample a span may be by its length and eight of its tokens, on a few samples put down by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing import candidates, hashing
from pytest_longctx.packing.candidates import Candidates
from pytest_longctx.packing.match import UNKNOWN, SampleIndex
from pytest_longctx.testing import Case

ALIKE = -2
GOLDEN, ALL = 0x9E3779B97F4A7C15, 2**64
# Of 15 tokens the 1st, 3rd, 5th … are looked at.
LONG = list(range(10, 25))


def other(place, value=99):
    return [value if at == place else token for at, token in enumerate(LONG)]


def of(*rows, labels=None, lengths=None):
    rows = [{"input_ids": row, "labels": own} for row, own in zip(rows, labels or rows, strict=True)]
    wanted = [len(row["input_ids"]) for row in rows] if lengths is None else lengths
    return Candidates(SampleIndex(Case(rows).samples, np.array(wanted, np.int64), 100))


def take(found, *spans, labels=None):
    """The samples of spans that stand one after the other, between tokens that are in none."""
    ids = np.array([777, *(token for span in spans for token in [*span, 777])])
    given = ids if labels is None else np.array([777, *(token for own in labels for token in [*own, 777])])
    sizes = np.array([len(span) for span in spans])
    ends = np.cumsum(sizes + 1)
    return found.take(ids, given, ends - sizes, ends)


def mixed(token):
    return int(hashing.mixed(np.array([token]))[0])


def key(ids, places):
    """What length and the eight tokens at these places say, in Python's integers."""
    weights = [(2 * GOLDEN * number + 1) % ALL for number in range(8)]
    probes = sum(mixed(ids[place]) * weight for place, weight in zip(places, weights, strict=True))
    return probes % ALL ^ mixed(len(ids))


KEYS = [
    ([5], [0] * 8),
    ([5, 6], [0] * 7 + [1]),
    ([5, 6, 7], [0, 0, 0, 0, 1, 1, 1, 2]),
    ([1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5, 6, 7]),
    ([1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 1, 2, 3, 4, 5, 6, 8]),
    (LONG, [0, 2, 4, 6, 8, 10, 12, 14]),
]


@pytest.mark.parametrize(("ids", "places"), KEYS)
def test_first_last_and_six_tokens_between_them_are_looked_at(ids, places):
    row = np.array([300, 301, *ids, 302])
    (found,) = candidates._probe(row, np.array([2]), np.array([2 + len(ids)])).tolist()
    assert found == key(ids, places)


@pytest.mark.parametrize("block", [1, 2, 3, 5, 6, 7])
def test_keys_are_those_of_the_samples_whatever_the_block(block, monkeypatch):
    monkeypatch.setattr(candidates, "BLOCK", block)
    found = of(*(ids for ids, _ in KEYS))
    numbered = sorted((key(*both), number) for number, both in enumerate(KEYS))
    assert found.keys.tolist() == [one for one, _ in numbered]
    assert found.sample.tolist() == [number for _, number in numbered]


def test_only_the_expected_length_counts():
    found = of([1, 2, 3], [4, 5, 6], [7], [8, 9], lengths=[2, 0, 1, 2])
    assert take(found, [1, 2, 3], [1, 2], [4, 5, 6], [7], [8, 9], [8]).tolist() == [-1, 0, -1, 2, 3, -1]
    assert len(found.keys) == 3
    assert found.index.delivered.tolist() == [1, 0, 1, 1]


def test_each_span_gets_its_sample_and_is_counted():
    found = of([1, 2], [2, 1], [3], [1, 2, 3])
    assert take(found, [3], [1, 2, 3], [1, 2], [3], [9], [2, 1], [3, 3]).tolist() == [2, 3, 0, 2, -1, 1, -1]
    assert found.index.delivered.tolist() == [1, 1, 2, 1]
    assert sorted(found.sample.tolist()) == [0, 1, 2, 3]
    assert found._alike.samples.tolist() == []


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_spans_below_and_above_all_keys_are_unknown(number):
    rows = [[one] for one in range(number)]
    strangers = [[one] for one in range(100, 1000)]
    own, foreign = ([key(row, [0] * 8) for row in some] for some in (rows, strangers))
    assert min(foreign) < min(own) <= max(own) < max(foreign)
    found = of(*rows)
    assert take(found, *strangers).tolist() == [UNKNOWN] * 900
    assert found.index.delivered.tolist() == [0] * number
    assert take(found, *rows).tolist() == list(range(number))


def test_samples_with_equal_probes_are_told_apart_by_all_tokens():
    found = of([1, 2], LONG, other(1), [3], other(13), other(2))
    by_key = dict(zip(found.keys.tolist(), found.sample.tolist(), strict=True))
    places = [0, 2, 4, 6, 8, 10, 12, 14]
    assert by_key == {
        key([1, 2], [0] * 7 + [1]): 0,
        key(LONG, places): ALIKE,
        key([3], [0] * 8): 3,
        key(other(2), places): 5,
    }
    assert sorted(found._alike.samples.tolist()) == [1, 2, 4]
    spans = [other(13), [3], LONG, other(3), other(1), [8], other(2), [1, 2]]
    taken = take(found, *spans)
    assert taken.tolist() == [4, 3, 1, UNKNOWN, 2, UNKNOWN, 5, 0]
    assert found.index.delivered.tolist() == [1, 1, 1, 1, 1, 1]
    found.give_back(taken)
    assert found.index.delivered.tolist() == [0] * 6


def test_two_equal_samples_come_in_turn_and_the_last_again():
    found = of([1, 2], [3], [1, 2])
    assert take(found, [1, 2], [3]).tolist() == [0, 1]
    assert take(found, [1, 2], [1, 2]).tolist() == [2, 2]
    assert found.index.delivered.tolist() == [1, 1, 2]


def test_equal_ids_go_by_the_labels_of_their_own_span():
    ids = [5, 6, 7, 8]
    found = of([9], ids, ids, labels=[[9], [-100, -100, 7, 8], [-100, 6, 7, 8]])
    labels = [[9], [-100, 6, 7, 8], [-100], [-100, -100, 7, 8]]
    assert take(found, [9], ids, [4], ids, labels=labels).tolist() == [0, 2, UNKNOWN, 1]


def test_what_was_taken_twice_is_given_back_twice():
    found = of([1], [2], [3])
    found.index.delivered[:] = [5, 6, 7]
    found.give_back(np.array([0, UNKNOWN, 1, 0]))
    assert found.index.delivered.tolist() == [3, 5, 7]


def test_the_hash_of_a_span_is_of_all_its_tokens():
    (found,) = candidates._span_hash(np.array([7, 8, 9])).tolist()
    assert found == (mixed(7) + mixed(8) * GOLDEN + mixed(9) * GOLDEN**2) % ALL
