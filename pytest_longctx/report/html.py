"""The HTML report: one self-contained file made from the JSON report, readable without script and net."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import MissingExtraError
from pytest_longctx.report.run import TROUBLE, by_trouble, is_measure, joined, sentence
from pytest_longctx.report.text import plain
from pytest_longctx.verdict import shown, shown_headroom, told_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jinja2 import Environment

MOST_IDS = 200


def page(report: Mapping[str, Any]) -> str:
    """The whole page; every value of the report is escaped.

    Args:
        report: what `json_report.build` makes.
    """
    contracts = [_contract(entry, f"c{number}") for number, entry in enumerate(report["contracts"])]
    template = _environment().get_template("page.html.jinja")
    return template.render(report=report, contracts=contracts, sentence=sentence(report["counts"]))


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pytest_longctx.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # A row id with control characters must not steer the reader's screen either.
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.filters.update(
        told_apart=told_apart, shown_headroom=shown_headroom, cell=cell, bar=bar, share=share
    )
    return environment


def _contract(entry: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """A contract's entry with what the page needs beside it."""
    checks = by_trouble(entry["checks"])
    drawn, note = _pictures(entry["evidence"], prefix)
    return {
        **entry,
        "anchor": prefix,
        "sentence": sentence(entry["counts"]),
        "trouble": joined(record for record in checks if record["outcome"] in TROUBLE),
        "measures": [record for record in checks if is_measure(record)],
        "quiet": _by_section(r for r in entry["checks"] if not is_measure(r) and r["outcome"] == "passed"),
        "skipped": [record for record in checks if record["outcome"] == "skipped"],
        "pictures": drawn,
        "picture_note": note,
        "most_ids": MOST_IDS,
    }


def _by_section(records: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    grouped = groupby(records, key=lambda record: record["section"])
    return [(section, [record["name"] for record in group]) for section, group in grouped]


def _pictures(evidence: Mapping[str, Any], prefix: str) -> tuple[list[dict[str, Any]], str]:
    """The pictures, or what unlocks them."""
    from markupsafe import Markup

    from pytest_longctx.report.pictures import pictures

    try:
        drawn = [
            # matplotlib writes this text; the only strings in it are titles and numbers of this package.
            {"title": title, "caption": caption, "svg": Markup(svg)}
            for title, caption, svg in pictures(evidence, prefix)
        ]
    except MissingExtraError as error:
        return [], str(error)
    return drawn, ""


def cell(value: Any) -> str:
    """A value of a witness as text."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def bar(headroom: float | None) -> float:
    """How much of a bar the headroom fills, 0 to 100; nothing beyond the limit."""
    return 0.0 if headroom is None else round(100 * min(1.0, max(0.0, headroom)), 1)


def share(ratio: float | None) -> str:
    """A ratio in percent, or a dash."""
    return shown(ratio, "ratio")
