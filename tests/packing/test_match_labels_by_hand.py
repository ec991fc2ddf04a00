"""Which of several samples of equal ids a segment is: the one whose labels it has."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing.audit import Delivery, audit
from pytest_longctx.packing.hashing import prefix_hashes
from pytest_longctx.packing.match import SampleIndex
from pytest_longctx.testing import Case

IDS = [1, 2, 3, 4]
# The labels of the samples a, b and c, and other ones that no sample has.
LABELS = {
    "a": [-100, 2, 3, 4],
    "b": [-100, -100, -100, 4],
    "c": [-100, -100, 3, 4],
    "?": [-100, 2, -100, 4],
}


def case_of(names):
    """Samples of equal ids behind one of other ids, so that the first starts at token 1."""
    rows = [{"input_ids": [9], "labels": [9]}, *({"input_ids": IDS, "labels": LABELS[one]} for one in names)]
    return Case(rows, capacity=4, names=["first", *names])


def index_of(names):
    case = case_of(names)
    return SampleIndex(case.samples, case.expected.lengths, case.capacity)


def given(names, segments, delivered=()):
    """The names of the samples that segments are, at each odd and even place behind some other tokens."""
    found = set()
    for before in (1, 2, 3, 4):
        index = index_of(names)
        index.delivered[[1 + names.index(one) for one in delivered]] = 1
        ids = np.array([8] * before + IDS * len(segments))
        labels = np.array([8] * before + [one for name in segments for one in LABELS[name]])
        starts = before + 4 * np.arange(len(segments))
        pieces = index.match(ids, labels, prefix_hashes(ids), starts, starts + 4)
        found.add("".join(names[sample - 1] for sample in pieces.sample.tolist()))
    return found.pop() if len(found) == 1 else found


@pytest.mark.parametrize("segments", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_in_any_order(segments):
    assert given("abc", segments) == segments


@pytest.mark.parametrize(
    ("segments", "samples"),
    [
        ("?", "a"),  # the first
        ("??", "ab"),
        ("???", "abc"),
        ("?a", "ba"),  # a is the one that has its labels
        ("?ab", "cab"),
        ("c?b", "cab"),
        ("aa", "ab"),  # nothing says that the second is not b with other labels
        ("aabc", "aabc"),  # a again, for b and c are there
        ("cabc", "cabc"),
        ("abc?", "abcc"),  # the last again
    ],
)
def test_labels_that_are_wrong_or_come_again(segments, samples):
    assert given("abc", segments) == samples


@pytest.mark.parametrize(
    ("delivered", "segments", "samples"),
    [("a", "a", "b"), ("a", "?a", "bc"), ("ab", "c", "c"), ("ab", "a?", "cc"), ("abc", "bac?", "bacc")],
)
def test_what_came_before_comes_again_only_where_nothing_is_left(delivered, segments, samples):
    assert given("abc", segments, delivered) == samples


def test_whether_samples_of_equal_ids_have_other_labels():
    index = index_of("aabc")
    assert not index.labels_differ(np.array([1]))
    assert index.labels_differ(np.array([2, 3]))
    assert not index_of("aabc").labels_differ(np.array([1, 2]))


def test_only_labels_behind_the_first_and_as_far_as_the_sample_is_expected():
    samples = case_of("abc").samples
    index = SampleIndex(samples, np.array([1, 4, 3, 2]), 4)
    assert [index.labels_of(sample).tolist() for sample in range(4)] == [[], [2, 3, 4], [-100, -100], [-100]]


@pytest.mark.parametrize("batches", [["aab"], ["aba"], ["ab", "a"]])
def test_a_sample_that_comes_twice_is_no_other_one_with_wrong_labels(batches):
    case = case_of("ab")
    deliveries = [Delivery(None, {"input_ids": np.array([[9]]), "labels": np.array([[-100]])})]
    for names in batches:
        ids, labels = np.array([IDS] * len(names)), np.array([LABELS[one] for one in names])
        deliveries.append(Delivery(None, {"input_ids": ids, "labels": labels}))
    found = audit(deliveries, case.samples, case.expected, "trainer")
    assert [(one.id, one.found) for one in found.witnesses["sample_conservation"]] == [("a", "2 times")]
    assert found.counts["labels_preserved"] == found.counts["target_count"] == 0
