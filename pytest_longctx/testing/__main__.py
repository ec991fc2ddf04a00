"""`python -m pytest_longctx.testing`: the table of mutants, killed and not, and of false alarms."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pytest_longctx.testing import HARMLESS, MUTANTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_longctx.testing import Mutant


def table() -> Iterator[str]:
    """Lines of the table; the last one sums it up."""
    killed = 0
    for mutant in MUTANTS:
        found = set(mutant.failing())
        killed += found == mutant.checks
        yield f"{mutant.stage:8}  {mutant.name:40}  {_told(mutant, found)}"
    alarms = 0
    for mutant in HARMLESS:
        found = set(mutant.failing())
        alarms += bool(found)
        yield f"{'sound':8}  {mutant.name:40}  {_told(mutant, found)}"
    yield f"mutants killed {killed} / {len(MUTANTS)}, false alarms {alarms} / {len(HARMLESS)}"


def _told(mutant: Mutant, found: set[str]) -> str:
    text = ", ".join(sorted(found)) or "nothing fails"
    return (
        text
        if found == mutant.checks
        else f"{text}  (must be: {', '.join(sorted(mutant.checks)) or 'nothing'})"
    )


if __name__ == "__main__":
    sys.stdout.writelines(line + "\n" for line in table())
