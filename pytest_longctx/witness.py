"""A witness: a sample or segment that shows a failure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Witness:
    """What was found at one place. All values are plain JSON types; row text never stands here.

    `id` is a sample id, or `row 3 segment 1` where no sample is known; `position` is in tokens.
    """

    id: str
    expected: str | int | float | None = None
    found: str | int | float | None = None
    position: int | None = None
    row: int | None = None
    segment: int | None = None
    note: str = ""
