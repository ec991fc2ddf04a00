"""Character spans of a rendered text to spans of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Span = tuple[int, int]


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


def token_spans(offsets: NDArray[np.int32], spans: Sequence[Span]) -> NDArray[np.int64]:
    """The tokens that overlap each character span, `[first, last)`.

    A token belongs to a span if it starts before the span's end and ends behind the span's start: the rule
    by which transformers makes `assistant_masks`, so a token across a border counts as inside.

    Args:
        offsets: int32[T, 2], monotone.
        spans: character spans `[start, end)`.

    Returns:
        int64[len(spans), 2]
    """
    edges = np.asarray(spans, dtype=np.int64).reshape(-1, 2)
    first = np.searchsorted(offsets[:, 1], edges[:, 0], side="right")
    last = np.searchsorted(offsets[:, 0], edges[:, 1], side="left")
    return np.stack([first, np.maximum(first, last)], axis=1)


def joined(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """The spans that are not empty, those that touch or overlap as one: int64[k, 2].

    Args:
        spans: int64[n, 2], in order of their starts.
    """
    filled = spans[spans[:, 1] > spans[:, 0]]
    if len(filled) < 2:
        return filled
    ends = np.maximum.accumulate(filled[:, 1])
    first = np.append(True, filled[1:, 0] > ends[:-1])
    return np.stack([filled[first, 0], ends[np.append(first[1:], True)]], axis=1)


def mark(length: int, spans: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[length], true inside the token spans."""
    marked = np.zeros(length, dtype=np.bool_)
    for first, last in spans.tolist():
        marked[first:last] = True
    return marked


def uncovered(text: str, offsets: NDArray[np.int32]) -> int | None:
    """The first character that no token covers and that is not white space, or None.

    Args:
        offsets: int32[T, 2], monotone.
    """
    starts = np.append(offsets[:, 0], len(text))
    ends = np.append(0, offsets[:, 1])
    for gap in np.flatnonzero(starts > ends).tolist():
        between = text[ends[gap] : starts[gap]]
        if between.strip():
            return int(ends[gap]) + len(between) - len(between.lstrip())
    return None


def runs_backwards(offsets: NDArray[np.int32]) -> int | None:
    """The first token whose span starts or ends before the token ahead of it, or None."""
    backwards = np.flatnonzero((np.diff(offsets, axis=0) < 0).any(axis=1))
    return int(backwards[0]) + 1 if backwards.size else None
