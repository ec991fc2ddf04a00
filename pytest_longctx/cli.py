"""The command `longctx`: what needs no data and no pytest."""

from __future__ import annotations

import argparse
import io
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; the exit status is 0, or 1 when something is wrong with the user's files."""
    for stream in (sys.stdout, sys.stderr):
        # A path or a message may hold what the terminal's encoding does not.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = _parser().parse_args(argv)
    status: int = arguments.run(arguments)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="longctx", description="Data contracts for long-context SFT.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="validate contracts without reading their data")
    check.add_argument("files", nargs="+", metavar="FILE", help="a contract")
    check.set_defaults(run=_check)
    schema = commands.add_parser("schema", help="print the JSON Schema of a contract")
    schema.set_defaults(run=_schema)
    diff = commands.add_parser("diff", help="what changed between two contracts, or two JSON reports")
    diff.add_argument("old", metavar="OLD", help="a contract (.yaml), or a report (.json)")
    diff.add_argument("new", metavar="NEW", help="the same kind of file")
    diff.add_argument(
        "--fail-on",
        choices=["loosened"],
        help="exit with 1 when a limit was loosened or a check removed",
    )
    diff.set_defaults(run=_diff)
    return parser


def _diff(arguments: argparse.Namespace) -> int:
    from pytest_longctx.diff import changes
    from pytest_longctx.errors import LongctxError
    from pytest_longctx.report.text import plain

    try:
        found = changes(arguments.old, arguments.new)
    except LongctxError as error:
        print(error)
        return 1
    for change in found:
        print(plain(str(change)))
    if not found:
        print("no difference")
    return int(arguments.fail_on == "loosened" and any(change.loosens for change in found))


def _check(arguments: argparse.Namespace) -> int:
    from pytest_longctx.contract import SECTIONS, load_contract
    from pytest_longctx.errors import ContractError

    status = 0
    for file in arguments.files:
        try:
            contract = load_contract(file)
        except ContractError as error:
            print(error)
            status = 1
        else:
            sections = [name for name in SECTIONS if name in contract.model_fields_set]
            print(f"{contract.display}: ok ({', '.join(sections)})")
    return status


def _schema(arguments: argparse.Namespace) -> int:
    from pytest_longctx.contract import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
