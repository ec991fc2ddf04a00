"""What GitHub shows of a run: annotations at lines of the contract, and a step summary in Markdown."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.report.run import TROUBLE, by_trouble, is_measure, joined, sentence
from pytest_longctx.report.text import plain, table
from pytest_longctx.verdict import shown_headroom, told_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_ANNOTATIONS = 10  # what GitHub shows of one step
MOST_ROWS = 400
MOST_BYTES = 1_000_000  # GitHub refuses a step summary of more than 1 MiB
_SIGNS = {"failed": "❌", "error": "❌", "warned": "⚠️", "waived": "⏳", "skipped": "⏭️", "passed": "✅"}
_COMMANDS = {"failed": "error", "error": "error", "warned": "warning"}


def workflow_commands(
    report: Mapping[str, Any], workspace: str | None = None, notes: Sequence[str] = ()
) -> list[str]:
    """Workflow commands, errors first, at most ten; the last one then counts the rest.

    Args:
        workspace: the checkout's folder, which paths are relative to (GITHUB_WORKSPACE).
        notes: failures that belong to no line: of a baseline, or of a file that could not be written.
    """
    records = [record for entry in report["contracts"] for record in joined(by_trouble(entry["checks"]))]
    wanted = [record for record in by_trouble(records) if record["outcome"] in _COMMANDS]
    commands = [_command("error", note, title="longctx") for note in notes]
    commands += [_annotation(record, workspace) for record in wanted]
    if len(commands) <= MOST_ANNOTATIONS:
        return commands
    left = len(commands) - MOST_ANNOTATIONS + 1
    rest = _command("error", f"{left:,} more stand in the step summary", title="longctx")
    return [*commands[: MOST_ANNOTATIONS - 1], rest]


def _annotation(record: Mapping[str, Any], workspace: str | None) -> str:
    lines = [record["headline"], *record["context"], record["advice"], _also(record)]
    message = "\n".join(plain(line) for line in lines if line)
    place = {"file": _from_workspace(record["contract"], workspace), "line": str(record["line"])}
    return _command(_COMMANDS[record["outcome"]], message, **place, title=record["check"])


def _also(record: Mapping[str, Any]) -> str:
    return f"not judged for this reason: {', '.join(record['also'])}" if record["also"] else ""


def _from_workspace(path: str, workspace: str | None) -> str:
    """The path as the repository has it; a file outside of it as it is."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow symlinks
    root = Path(os.path.abspath(workspace)) if workspace else None  # noqa: PTH100
    inside = root is not None and absolute.is_relative_to(root)
    return absolute.relative_to(root).as_posix() if root and inside else Path(path).as_posix()


def _command(name: str, message: str, **properties: str) -> str:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(plain(text)).replace(":", "%3A").replace(",", "%2C")


def step_summary(report: Mapping[str, Any], notes: Sequence[str] = ()) -> str:
    """Markdown: per contract a table, trouble first, and what each failure says."""
    told = ", ".join(filter(None, sentence(report["counts"])))
    parts = [f"## {_SIGNS[report['verdict']]} longctx: {told}"]
    if notes:
        parts.append("\n".join(f"- ❌ {escape(note)}" for note in notes))
    for entry in report["contracts"]:
        parts.append(f"### {escape(entry['name'])}\n\n<code>{escape(entry['path'])}</code>")
        parts.append("\n".join(_table(entry)))
        parts += _details(entry)
    text = "\n\n".join(parts) + "\n"
    if len(text.encode()) <= MOST_BYTES:
        return text
    short = text.encode()[:MOST_BYTES].decode(errors="ignore").rpartition("\n")[0]
    return f"{short}\n\n…cut here: the JSON report has the rest\n"


def _table(entry: Mapping[str, Any]) -> Iterator[str]:
    """Checks that have a limit or did not pass; the others are counted."""
    checks = by_trouble(entry["checks"])
    told = [record for record in checks if record["outcome"] != "passed" or is_measure(record)]
    lines = joined(told)
    if told:
        yield "| | check | measured | limit | headroom | verdict |"
        yield "|---|---|--:|--:|--:|---|"
    yield from map(_row, lines[:MOST_ROWS])
    if len(lines) > MOST_ROWS:
        yield f"\n{len(lines) - MOST_ROWS:,} further lines are in the JSON report"
    if len(checks) > len(told):
        left = len(checks) - len(told)
        yield f"\n{left:,} {'more ' if told else ''}check{'' if left == 1 else 's'} passed"


def _row(record: Mapping[str, Any]) -> str:
    room = shown_headroom(record["headroom"])
    numbers = told_apart(record["measured"], record["limit"], record["unit"])
    others = f" and {len(record['also']) - 1} more" if record["also"] else ""
    name = f"<code>{escape(record['check'])}</code>{others}"
    return f"| {' | '.join([_SIGNS[record['outcome']], name, *numbers, room, record['outcome']])} |"


def _details(entry: Mapping[str, Any]) -> Iterator[str]:
    """What each failure says, as in the terminal; nothing inside of pre is Markdown."""
    for record in joined(by_trouble(entry["checks"])):
        if record["outcome"] not in TROUBLE:
            continue
        lines = record["error"].splitlines() if record["error"] else list(_verdict(record))
        place = f"{record['contract']}:{record['line']}   {record['check']}"
        body = "\n".join(_html(line) for line in [place, *lines, _also(record)] if line)
        title = f"{_SIGNS[record['outcome']]} {_html(record['headline'])}"
        yield f"<details><summary>{title}</summary>\n<pre>\n{body}\n</pre>\n</details>"


def _verdict(record: Mapping[str, Any]) -> Iterator[str]:
    yield from record["context"]
    yield from table(record["witnesses"])
    if record["more"]:
        yield f"  and {record['more']:,} more"
    if record["waiver"]:
        yield f"waiver until {record['waiver']['until']}: {record['waiver']['reason']}"
    yield record["advice"]


def _html(text: str) -> str:
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line, also in a cell of a table."""
    return re.sub(r"([\\`*_{}\[\]()#!|~$@])", r"\\\1", _html(text))
