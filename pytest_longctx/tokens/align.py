"""Character spans of a rendered text to spans of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

    White space needs no token, nor what the normalizer composes with the tokens beside it: of `e` and its
    accent, which NFC makes one character, the token's span has the `e` alone.

    Args:
        offsets: int32[T, 2], monotone.
        normalize: the tokenizer's normalizer, None where it has none.
    """
    starts, ends = np.empty((2, len(offsets) + 1), dtype=np.int64)
    starts[:-1], starts[-1] = offsets[:, 0], len(text)
    ends[0], ends[1:] = 0, offsets[:, 1]
    for gap in np.flatnonzero(starts > ends).tolist():
        between = text[ends[gap] : starts[gap]]
        if not between.strip():
            continue
        # The token ahead of those without width, which a post-processor adds.
        first = starts[ends[1:].searchsorted(ends[gap])]
        around = text[first : ends[gap]], between, text[starts[gap] : ends[min(gap + 1, len(offsets))]]
        if normalize is None or not _composed(*around, normalize):
            return int(ends[gap]) + len(between) - len(between.lstrip())
    return None


def _composed(ahead: str, between: str, behind: str, normalize: Callable[[str], str]) -> bool:
    """Whether what stands between two tokens changes their characters, and adds none.

    The token behind counts too: NFC may compose a letter with its second mark, and name the first by the
    second's place.
    """
    alone, whole = normalize(ahead) + normalize(behind), normalize(ahead + between + behind)
    return whole != alone and len(whole) <= len(alone)


def runs_backwards(offsets: NDArray[np.int32]) -> int | None:
    """The first token whose span starts or ends before the token ahead of it, or None."""
    backwards = np.flatnonzero((np.diff(offsets, axis=0) < 0).any(axis=1))
    return int(backwards[0]) + 1 if backwards.size else None
