"""What GitHub shows of a run: annotations at lines of the contract, and a step summary in Markdown."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.report.run import TROUBLE, by_trouble, is_measure, sentence
from pytest_longctx.report.text import plain
from pytest_longctx.verdict import shown

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
        notes: failures that belong to no line, such as those of a baseline.
    """
    records = [record for entry in report["contracts"] for record in entry["checks"]]
    wanted = [record for record in by_trouble(records) if record["outcome"] in _COMMANDS]
    commands = [_command("error", note, title="baseline") for note in notes]
    commands += [_annotation(record, workspace) for record in wanted]
    if len(commands) <= MOST_ANNOTATIONS:
        return commands
    left = len(commands) - MOST_ANNOTATIONS + 1
    rest = _command("error", f"{left:,} more stand in the step summary", title="longctx")
    return [*commands[: MOST_ANNOTATIONS - 1], rest]


def _annotation(record: Mapping[str, Any], workspace: str | None) -> str:
    lines = [record["headline"], *record["context"], record["advice"]]
    message = "\n".join(plain(line) for line in lines if line)
    place = {"file": _from_workspace(record["contract"], workspace), "line": str(record["line"])}
    return _command(_COMMANDS[record["outcome"]], message, **place, title=record["check"])


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
        parts.append(f"### {escape(entry['name'])}\n\n{_code(entry['path'])}")
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
    if told:
        yield "| | check | measured | limit | headroom | verdict |"
        yield "|---|---|--:|--:|--:|---|"
    for record in told[:MOST_ROWS]:
        room = "–" if record["headroom"] is None else f"{100 * record['headroom']:.0f} %"
        numbers = [shown(record[key], record["unit"]) for key in ("measured", "limit")]
        cells = [_SIGNS[record["outcome"]], _code(record["check"]), *numbers, room, record["outcome"]]
        yield f"| {' | '.join(cells)} |"
    if len(told) > MOST_ROWS:
        yield f"\n{len(told) - MOST_ROWS:,} further lines are in the JSON report"
    if len(checks) > len(told):
        quiet = f"{len(checks) - len(told):,} {'more ' if told else ''}checks hold"
        yield f"\n{quiet}; they have no limit to be near to"


def _details(entry: Mapping[str, Any]) -> Iterator[str]:
    causes: set[str] = set()
    for record in by_trouble(entry["checks"]):
        if record["outcome"] not in TROUBLE or (record["error"] and record["error"] in causes):
            continue
        causes.add(record["error"] or "")
        lines = [*record["context"], *_witnesses(record), record["advice"]]
        body = "\n\n".join(
            filter(None, map(escape, record["error"].splitlines() if record["error"] else lines))
        )
        place = f"{_code(record['contract'])}, line {record['line']}"
        title = f"{_SIGNS[record['outcome']]} {escape(record['headline'])}"
        yield f"<details><summary>{title}</summary>\n\n{place}\n\n{body}\n\n</details>"


def _witnesses(record: Mapping[str, Any]) -> Iterator[str]:
    for row in record["witnesses"]:
        yield "; ".join(f"{name} {value}" for name, value in row.items() if value is not None)
    if record["more"]:
        yield f"and {record['more']:,} more"


def escape(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    safe = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~$@-])", r"\\\1", safe)


def _code(text: str) -> str:
    """Code that nothing in the text can end; a bar would end the cell of a table."""
    return f"<code>{escape(text)}</code>"
