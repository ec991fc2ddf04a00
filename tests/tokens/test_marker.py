from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.tokens.marker import marked_spans, occurrences


def ids(*values):
    return np.array(values, dtype=np.int32)


@pytest.mark.parametrize(
    ("row", "marker", "expected"),
    [
        ((7, 8, 1, 7, 8, 7), (7, 8), [0, 3]),
        ((1, 1, 1), (1, 1), [0, 1]),  # they may overlap
        ((1, 2), (3,), []),
        ((1,), (1, 2), []),
        ((1, 2), (), []),
    ],
)
def test_occurrences(row, marker, expected):
    assert occurrences(ids(*row), ids(*marker)).tolist() == expected


def test_one_marker_supervises_what_follows_its_last_occurrence():
    assert marked_spans(ids(1, 9, 2, 9, 3, 4), [ids(9)]).tolist() == [[4, 6]]
    assert marked_spans(ids(1, 2), [ids(9)]).tolist() == []


def test_two_markers_supervise_each_answer():
    #       user     answer   user     answer
    row = ids(5, 1, 9, 2, 3, 5, 1, 9, 4)
    assert marked_spans(row, [ids(5), ids(9)]).tolist() == [[3, 5], [8, 9]]


def test_a_response_marker_inside_an_answer_opens_nothing_new():
    assert marked_spans(ids(5, 9, 1, 9, 2, 5, 9, 3), [ids(5), ids(9)]).tolist() == [[2, 5], [7, 8]]


def unsloth(row, instruction, response):
    """Unsloth's train_on_responses_only, its loop over one row without the optional white space."""
    labels, at, size = [-100] * len(row), 0, len(row)
    while at < size:
        if row[at : at + len(response)] == response:
            start = at = at + len(response)
            while at < size and row[at : at + len(instruction)] != instruction:
                at += 1
            labels[start:at] = row[start:at]
        else:
            at += 1
    return labels


def former_trl(row, instruction, response):
    """DataCollatorForCompletionOnlyLM of TRL 0.12 with both markers, its loop over one row."""
    labels = list(row)
    ends = [at + len(response) for at in range(len(row)) if row[at : at + len(response)] == response]
    starts = [at for at in range(len(row)) if row[at : at + len(instruction)] == instruction]
    if not ends or not starts:
        return [-100] * len(row)
    for place, (start, end) in enumerate(zip(starts, ends, strict=False)):
        first = start if place else 0
        labels[first:end] = [-100] * (end - first)
    if len(ends) < len(starts):
        labels[starts[-1] :] = [-100] * (len(row) - starts[-1])
    return labels


def labels_of(row, instruction, response):
    labels = [-100] * len(row)
    for start, end in marked_spans(ids(*row), [ids(*instruction), ids(*response)]).tolist():
        labels[start:end] = row[start:end]
    return labels


@given(st.lists(st.sampled_from([1, 2, 5, 6, 9]), max_size=24))
@settings(deadline=None, max_examples=300)
def test_two_markers_as_unsloth_finds_them(row):
    assert labels_of(row, [5, 6], [9]) == unsloth(row, [5, 6], [9])


@given(
    st.lists(
        st.tuples(st.lists(st.integers(1, 3), max_size=3), st.lists(st.integers(1, 3), max_size=3)),
        min_size=1,
    )
)
@settings(deadline=None, max_examples=100)
def test_two_markers_as_trl_found_them_where_they_alternate(turns):
    row = [token for asked, said in turns for token in (5, *asked, 9, *said)]
    assert labels_of(row, [5], [9]) == former_trl(row, [5], [9]) == unsloth(row, [5], [9])
