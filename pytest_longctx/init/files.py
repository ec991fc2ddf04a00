"""Write a proposed contract, once it has been seen to pass."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_longctx.check import check_contract
from pytest_longctx.contract import json_schema
from pytest_longctx.errors import LongctxError
from pytest_longctx.init.text import contract_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_longctx.check import Report
    from pytest_longctx.init.proposal import Proposal
    from pytest_longctx.init.source import Source
    from pytest_longctx.settings import Settings

SCHEMA_NAME = "longctx.schema.json"


@dataclass(frozen=True)
class Written:
    """Where the contract lies, and its checks by outcome: passed, warned, skipped, waived."""

    path: Path
    outcomes: Counter[str]


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raise LongctxError where there is a file already, unless that is wanted."""
    if os.path.lexists(path) and not force:
        raise LongctxError(f"{path}: there is such a file; --force writes over it, -o FILE writes elsewhere")


def write(
    proposal: Proposal, source: Source, path: Path, settings: Settings | None = None, *, force: bool = False
) -> Written:
    """Check the contract as it will lie there, and put it in place in one step.

    The JSON Schema for editors goes beside it, unless there is one.

    Raises:
        LongctxError: there is such a file, or the contract does not pass; then nothing is left behind.
    """
    refuse_existing(path, force=force)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = contract_text(proposal, source.seen_from(path.parent), source.name, SCHEMA_NAME)
    with _in_place(path, text) as draft:
        outcomes = _outcomes(check_contract(draft, settings=settings), proposal)
        refuse_existing(path, force=force)
    schema = path.parent / SCHEMA_NAME
    if force or not os.path.lexists(schema):
        with _in_place(schema, json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"):
            pass
    return Written(path, outcomes)


@contextmanager
def _in_place(path: Path, text: str) -> Iterator[Path]:
    """A hidden file beside `path` that takes its place at the end, or goes."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o666 & ~_umask())
        yield Path(name)
        os.replace(name, path)  # noqa: PTH105 - as the standard library calls it
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _outcomes(report: Report, proposal: Proposal) -> Counter[str]:
    """The verdicts; those that fail must be the waived ones."""
    outcomes: Counter[str] = Counter()
    wrong = []
    for result in report.results:
        waived = result.check.id in proposal.waived
        if result.outcome == "error" or (result.outcome == "failed") != waived:
            told = result.verdict.headline if result.verdict else result.error
            wrong.append(f"{result.check.id}: {told}")
        outcomes["waived" if waived else result.outcome] += 1
    if wrong:
        raise LongctxError("\n".join(["the proposed contract does not pass, so it was not written:", *wrong]))
    return outcomes
