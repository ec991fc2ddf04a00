"""The page of one check, for a terminal."""

from __future__ import annotations

import difflib
import textwrap

from pytest_longctx.checks.catalog import CATALOG
from pytest_longctx.errors import LongctxError

_WIDTH = 80


def page(name: str) -> str:
    """What the check looks at, why it matters, how to mend what it finds.

    Args:
        name: `section::check`, a node id, with or without slice or stage, or the check's name alone.

    Raises:
        LongctxError: there is no such check, or several sections have one of this name.
    """
    known = _known(name)
    measures, matters, mend = CATALOG[known]
    parts = (measures, f"Why it matters. {matters}", f"How to mend it. {mend}")
    return "\n\n".join([known, *(textwrap.fill(part, _WIDTH, break_on_hyphens=False) for part in parts)])


def _known(name: str) -> str:
    words = [word for word in name.split("::") if word]
    for place in range(len(words) - 1):
        if "::".join(words[place : place + 2]) in CATALOG:
            return "::".join(words[place : place + 2])
    alone = [known for known in CATALOG if words[-1:] == known.split("::")[1:]]
    if len(alone) == 1:
        return alone[0]
    if alone:
        raise LongctxError(f"{name}: which one? {', '.join(alone)}")
    if words[:1] == ["custom"] or "custom" in words[:-1]:
        raise LongctxError(f"{name} is a check of your own: a hook pytest_longctx_checks registers it")
    near = difflib.get_close_matches("::".join(words[-2:]), CATALOG, 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise LongctxError(f"{name}: there is no such check{hint} All of them: docs/checks.md")
