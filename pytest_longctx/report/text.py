"""A verdict as lines of text; the first says it all in 80 columns."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from pytest_longctx.checks.check import clip
from pytest_longctx.report.record import given, line_of
from pytest_longctx.waivers import not_covered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_longctx.checks import Check
    from pytest_longctx.contract import Contract
    from pytest_longctx.verdict import Verdict

WIDTH = 80
_LEAST_SOURCE = 50  # columns for the contract's words behind a long path: a limit is told in full
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


# GitHub takes a line for a command by its first signs, whatever blanks stand before them.
_COMMAND = re.compile(r"(?<!\S)(::|##\[)")


def plain(text: str) -> str:
    """Text of rows or files without control characters and commands: it steers neither terminal nor log."""
    return _COMMAND.sub("�", _CONTROL.sub("�", text))


def verdict_lines(check: Check, verdict: Verdict, contract: Contract) -> Iterator[str]:
    """The text of a verdict that did not pass."""
    yield plain(verdict.headline)
    place = f"  {contract.display}:{line_of(check, contract)}   "
    yield clip(f"{place}{source_line(contract, check)}", max(WIDTH, len(place) + _LEAST_SOURCE))
    uncovered = not_covered(check.id, contract.waivers) if verdict.outcome == "failed" else ""
    for line in filter(None, (*verdict.context, uncovered)):
        yield from _wrapped(plain(line))
    yield from table(verdict.witnesses)
    if verdict.more > 0:
        yield f"  …{f'{verdict.more:,} more':>{WIDTH - 6}}"
    if verdict.advice:
        yield from _wrapped(plain(verdict.advice))


def broken_lines(check: Check, cause: str, first: str) -> Iterator[str]:
    """The text of a check that could not be judged; the cause is told once, with the check `first`."""
    if check.id != first:
        yield f"{check.name}: not judged, see {first}"
        return
    lines = [plain(line) for line in cause.splitlines()]
    yield clip(f"{check.name}: {lines[0]}")
    if len(lines) > 1 or len(f"{check.name}: {lines[0]}") >= WIDTH:
        for line in lines:
            yield from _wrapped(line)


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def source_line(contract: Contract, check: Check) -> str:
    """The contract's own words for what is checked, or where its defaults stand for them."""
    here = given(contract, check.key)
    if not here:
        return f"no section {check.key[0]}: its defaults hold"
    *above, last = check.key
    value: Any = contract
    for part in check.key:
        value = value[part] if isinstance(part, int) else getattr(value, part, None)
    if above and above[-1] in ("limits", "warn"):
        words = f"{above[-1]}: {{{last}: {value}}}"
    else:
        words = f"{last}: {plain(str(value))}" if isinstance(value, str | int | float) else f"{last}:"
    return words if here == len(check.key) else f"{check.key[here - 1]}:   ({words} by default)"


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Rows of one shape in columns; numbers to the right. The last column takes the lines' rest.

    Where that is too wide, a file that all ids name is told once.
    """
    lines = list(_columns(rows))
    file = _shared_file(rows)
    if file and any(len(line) > WIDTH for line, _ in lines):
        yield f"  ids are {plain(file)}:…"
        lines = list(_columns([{**row, "id": f"…:{row['id'].rpartition(':')[2]}"} for row in rows]))
    for line, last in lines:
        yield from _fold(line, last)


def _shared_file(rows: Sequence[dict[str, Any]]) -> str:
    """The file that all row ids begin with, as in `file:row`; else nothing."""
    ids = [row.get("id") for row in rows]
    files = {name.rpartition(":")[0] if isinstance(name, str) else "" for name in ids}
    return files.pop() if len(files) == 1 else ""


def _columns(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each line of a table with its last cell; the names of the columns first."""
    if not rows:
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    right = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in names]
    widths = [max(len(name), *(len(row[at]) for row in cells)) for at, name in enumerate(names)]
    for line in (names, *cells):
        padded = [
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
        ]
        yield "  " + "  ".join(padded).rstrip(), line[-1]


def _fold(line: str, last: str) -> list[str]:
    """A line too wide for 80 columns goes on below, the last cell indented."""
    if len(line) <= WIDTH:
        return [line]
    before = line[: len(line) - len(last)].rstrip()
    if not before.strip():
        return textwrap.wrap(line, WIDTH, subsequent_indent="    ")
    return [
        *textwrap.wrap(before, WIDTH, subsequent_indent="    ", drop_whitespace=False),
        *textwrap.wrap(last, WIDTH, initial_indent="    ", subsequent_indent="    "),
    ]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain(str(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
