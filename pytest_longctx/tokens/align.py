"""Character spans of a rendered text to spans of its tokens."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Span = tuple[int, int]

# Letters of Hangul; their forms that NFKC makes such; half-width marks of kana and letters of Hangul.
_JOINING = (("\u1160", "\u11ff"), ("\u3131", "\u3163"), ("\uff9e", "\uffdc"))


def monotone(offsets: NDArray[np.int32]) -> NDArray[np.int32]:
    """Offsets that never run backwards.

    A token that a post-processor adds carries (0, 0): behind the text's first token it gets no width at the
    end of the token before it, so that it lies inside no span of the text.

    Args:
        offsets: int32[T, 2], character start and end of each token.
    """
    edges = np.maximum.accumulate(offsets, axis=0)
    added = offsets[:, 1] == 0
    edges[added, 0] = edges[added, 1]
    return edges


def token_spans(offsets: NDArray[Any], spans: Sequence[Span]) -> NDArray[np.int64]:
    """The tokens that overlap each character span, `[first, last)`.

    A token belongs to a span if it starts before the span's end and ends behind the span's start: the rule
    by which transformers makes `assistant_masks`, so a token across a border counts as inside.

    Args:
        offsets: int32 or int64[T, 2], monotone.
        spans: character spans `[start, end)`.

    Returns:
        int64[len(spans), 2]
    """
    edges = np.array(spans, dtype=np.int64).reshape(-1, 2)
    first = offsets[:, 1].searchsorted(edges[:, 0], side="right")
    last = offsets[:, 0].searchsorted(edges[:, 1], side="left")
    edges[:, 0] = first
    np.maximum(first, last, out=edges[:, 1])
    return edges


def joined(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """The spans that are not empty, those that touch or overlap as one: int64[k, 2].

    Args:
        spans: int64[n, 2], in order of their starts; the few of one sample.
    """
    found: list[list[int]] = []
    for first, last in spans.tolist():
        if found and first <= found[-1][1]:
            found[-1][1] = max(last, found[-1][1])
        elif first < last:
            found.append([first, last])
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def paint(tokens: NDArray[Any], spans: NDArray[np.int64], value: int) -> None:
    """Set the tokens inside the spans to a value."""
    for first, last in spans.tolist():
        tokens[first:last] = value


def uncovered(
    text: str, offsets: NDArray[np.int32], normalize: Callable[[str], str] | None = None
) -> int | None:
    """The first character that no token covers, or None.

    White space needs no token, nor what the normalizer composes with a letter: of `e` and its accent, which
    NFC makes one character, the token's span has the `e` alone.

    Args:
        offsets: int32[T, 2], monotone.
        normalize: the tokenizer's normalizer, None where it has none.
    """
    starts, ends = np.empty((2, len(offsets) + 1), dtype=np.int64)
    starts[:-1], starts[-1] = offsets[:, 0], len(text)
    ends[0], ends[1:] = 0, offsets[:, 1]
    gaps = np.flatnonzero(starts > ends)
    edges = offsets.astype(np.int64) if gaps.size else offsets  # as what is searched: else each search copies
    composed = 0  # nothing is lost in front of it
    for gap in gaps.tolist():
        while between := text[max(ends[gap], composed) : starts[gap]].lstrip():
            first = int(starts[gap]) - len(between)
            cluster = _letter_with_marks(text, first)
            if normalize is None or not _composed(text, edges, cluster, normalize):
                return first
            composed = cluster[1]
    return None


def _letter_with_marks(text: str, at: int) -> Span:
    """The character at a place with what may compose with it, ahead of it and behind."""
    start, end = at, at + 1
    while start and _joins(text[start]):
        start -= 1
    while end < len(text) and _joins(text[end]):
        end += 1
    return start, end


def _joins(character: str) -> bool:
    """Whether NFC or NFKC may compose it with a character ahead: a mark, or a vowel or final of Hangul."""
    return unicodedata.category(character)[0] == "M" or any(
        first <= character <= last for first, last in _JOINING
    )


def _composed(text: str, offsets: NDArray[Any], cluster: Span, normalize: Callable[[str], str]) -> bool:
    """Whether the tokens cover as many characters as the normalizer leaves of a letter and its marks.

    Not which of them: the spans that tokenizers give of composed characters are their places in a row.
    """
    start, end = cluster
    ((first, last),) = token_spans(offsets, [cluster]).tolist()
    covered = np.zeros(end - start, dtype=np.bool_)
    paint(covered, (offsets[first:last] - start).clip(0), 1)
    marks = len(normalize(text[start:end])) - len(normalize(text[start]))
    return marks < int(np.count_nonzero(covered))


def runs_backwards(offsets: NDArray[np.int32]) -> int | None:
    """The first token whose span starts or ends before the token ahead of it, or None."""
    backwards = np.flatnonzero((np.diff(offsets, axis=0) < 0).any(axis=1))
    return int(backwards[0]) + 1 if backwards.size else None
