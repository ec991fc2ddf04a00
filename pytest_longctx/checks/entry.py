"""One check in words."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """What a check looks at, why it matters, and how to mend what it finds."""

    measures: str
    matters: str
    mend: str
