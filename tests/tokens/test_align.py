from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import NFC, NFKC, Prepend, Replace, Sequence

from pytest_longctx.tokens.align import joined, monotone, paint, runs_backwards, token_spans, uncovered


def pairs(*rows):
    return np.array(rows, dtype=np.int32).reshape(-1, 2)


#                   h e l l o   _     w o r l d   !
WORDS = pairs((0, 5), (5, 6), (6, 11), (11, 12))


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 5), [0, 1]),  # exactly one token
        ((6, 12), [2, 4]),
        ((5, 6), [1, 2]),
        ((0, 12), [0, 4]),
        ((4, 7), [0, 3]),  # across borders: tokens 0 and 2 overlap, so they count as inside
        ((7, 8), [2, 3]),  # within one token
        ((12, 20), [4, 4]),  # behind the text
        ((5, 5), [1, 1]),  # an empty span between two tokens
    ],
)
def test_tokens_of_a_span(span, expected):
    assert token_spans(WORDS, [span]).tolist() == [expected]


def test_no_spans_give_no_rows():
    assert token_spans(WORDS, []).shape == (0, 2)


def test_tokens_that_share_a_character_belong_to_it_together():
    emoji = pairs((0, 1), (1, 2), (1, 2), (1, 2), (2, 3))
    assert token_spans(emoji, [(1, 2)]).tolist() == [[1, 4]]


def test_tokens_that_a_post_processor_adds_lie_in_no_span():
    added = monotone(pairs((0, 0), (0, 5), (5, 6), (0, 0)))
    assert added.tolist() == [[0, 0], [0, 5], [5, 6], [6, 6]]
    assert token_spans(added, [(0, 6)]).tolist() == [[1, 3]]
    assert token_spans(added, [(5, 6)]).tolist() == [[2, 3]]


def test_painting():
    tokens = np.zeros(5, dtype=np.uint8)
    paint(tokens, np.array([[0, 2], [4, 5]]), 1)
    paint(tokens, np.array([[1, 2], [3, 3]]), 2)
    assert tokens.tolist() == [1, 2, 0, 0, 1]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], []),
        ([(3, 3)], []),
        ([(0, 2), (3, 5)], [[0, 2], [3, 5]]),
        ([(0, 2), (2, 5)], [[0, 5]]),
        ([(0, 5), (1, 2), (4, 6)], [[0, 6]]),
        ([(0, 2), (2, 2), (3, 3), (4, 5)], [[0, 2], [4, 5]]),
    ],
)
def test_joined_spans(spans, expected):
    found = joined(np.array(spans, dtype=np.int64).reshape(-1, 2))
    assert found.tolist() == expected
    assert found.shape == (len(expected), 2)
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "offsets", "expected"),
    [
        ("hello world!", WORDS, None),
        ("hello world!", WORDS[[0, 2, 3]], None),  # only white space is uncovered
        ("hello world!", WORDS[:2], 6),
        ("hello world!", WORDS[1:], 0),
        ("ab  cd", pairs((0, 1), (4, 6)), 1),
        ("a  b", pairs((0, 1), (0, 0)), 3),
        ("", pairs(), None),
        ("x", pairs(), 0),
    ],
)
def test_uncovered_characters(text, offsets, expected):
    assert uncovered(text, monotone(offsets)) == expected


@pytest.mark.parametrize(
    ("text", "offsets", "expected"),
    [
        ("cafe\u0301 au", pairs((0, 2), (2, 4), (5, 8)), None),
        ("e\u0302\u0301 e\u0301", pairs((0, 1), (3, 5)), None),  # two marks, and one at the end of the text
        ("e\u0301", pairs((0, 1), (0, 0)), None),  # a special token is added behind the mark
        ("\u1112\u1161\u11ab!", pairs((0, 1), (3, 4)), None),  # jamo of one syllable
        ("x\u031b\u0308", pairs((0, 1), (2, 3)), None),  # the letter composes with its second mark
        # NFC takes the last mark of three, and the spans say the first.
        ("i\u0317\u032f\u0302", pairs((0, 1), (2, 3), (2, 3), (3, 4), (3, 4)), None),
        ("i\u0317\u032f\u0302", pairs((0, 1), (3, 4), (3, 4)), 1),
        ("e\u0301 e\u0301`", pairs((0, 1), (2, 4)), 5),
        ("e\u0301`", pairs((0, 1)), 2),  # a character is lost behind the mark
        ("\u1112\u1161\u11ab\u1112\u1161", pairs((0, 1)), 3),  # the second syllable is lost
        ("cafe\u0301 au", pairs((0, 3), (5, 8)), 3),  # the letter is lost with its mark
        ("e\u0301\u0301", pairs((0, 1)), 1),  # NFC takes one mark of two
        ("ab", pairs((0, 1)), 1),
        ("\u0301a", pairs((1, 2)), 0),
        ("x\u0301", pairs((0, 1)), 1),  # no such letter: the mark is a character of its own
        ("\u0301", pairs(), 0),
    ],
)
def test_marks_that_the_normalizer_composes(text, offsets, expected):
    assert uncovered(text, monotone(offsets), NFC().normalize_str) == expected


@pytest.mark.parametrize("text", ["\u314e\u314f!", "\uffa8\uffc2!", "\uff76\uff9e!", "e\u0301!"])
def test_letters_that_compose_as_nfkc_reads_them(text):
    """Letters of Hangul for compatibility, and of half width; kana of half width and its mark."""
    assert len(NFKC().normalize_str(text)) == 2
    assert uncovered(text, pairs((0, 1), (2, 3)), NFKC().normalize_str) is None
    assert uncovered(text, pairs((2, 3)), NFKC().normalize_str) == 0


def test_characters_that_the_normalizer_drops_are_uncovered():
    assert uncovered("ab", pairs((0, 1)), Replace("b", "").normalize_str) == 1


@pytest.mark.parametrize("mark", ["`", "\x7f", "\u65e5", "\u0301"])
def test_what_is_lost_beside_a_normalizer_that_adds_is_uncovered(mark):
    """As Llama's does: one character in front of whatever it is given."""
    prepends = Sequence([Prepend("\u2581"), Replace(" ", "\u2581")]).normalize_str
    text = f"use{mark} here"
    assert uncovered(text, pairs((0, 1), (1, 2), (2, 3), (4, 5), (5, 9)), prepends) == 3
    composing = Sequence([Prepend("\u2581"), NFC()]).normalize_str
    expected = None if mark == "\u0301" else 3
    assert uncovered(text, pairs((0, 1), (1, 2), (2, 3), (4, 5), (5, 9)), composing) == expected


def test_ten_thousand_marks_on_one_letter_are_looked_at_once():
    seen = []

    def normalize(text):
        seen.append(len(text))
        return NFC().normalize_str(text)

    text = "e" + "\u0301" * 10_000
    spans = pairs(*[(at, at + 1) for at in range(0, 10_001, 2)])
    assert uncovered(text, spans, normalize) == 1
    assert sum(seen) == 10_002


def test_running_backwards():
    assert runs_backwards(WORDS) is None
    assert runs_backwards(WORDS[[0, 2, 1]]) == 2
    assert runs_backwards(pairs((0, 3), (1, 2))) == 1  # ends earlier than the token ahead
    assert runs_backwards(pairs((0, 1))) is None


def overlaps(offsets, start, end):
    """transformers' rule for its mask, token by token."""
    return [first < end and last > start for first, last in offsets]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=12), st.data())
@settings(deadline=None, max_examples=200)
def test_spans_equal_the_rule_token_by_token(steps, data):
    offsets, at = [], 0
    for gap, width in steps:
        offsets.append((at + gap, at + gap + width))
        at += gap + width
    start = data.draw(st.integers(0, at))
    end = data.draw(st.integers(start + 1, at + 1))
    (span,) = token_spans(pairs(*offsets), [(start, end)])
    inside = np.zeros(len(offsets), dtype=np.bool_)
    paint(inside, np.array([span]), True)
    assert inside.tolist() == overlaps(offsets, start, end)
