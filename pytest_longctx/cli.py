"""The command `longctx`: what needs no data and no pytest."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLOSED_PIPE = 128 + 13  # as a shell tells that SIGPIPE ended a program


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; the exit status is 0, or 1 when something is wrong with the user's files."""
    for stream in (sys.stdout, sys.stderr):
        # A path or a message may hold what the terminal's encoding does not.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = command_line().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        print(end="", flush=True)  # also where there is no stdout
    except BrokenPipeError:  # `head` has read enough; python's own flush at the end is not to tell of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    return status


def command_line() -> argparse.ArgumentParser:
    """All subcommands; `run` of what they parse is the function that does it."""
    parser = argparse.ArgumentParser(prog="longctx", description="Data contracts for long-context SFT.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_init(commands)
    check = commands.add_parser("check", help="validate contracts without reading their data")
    check.add_argument("files", nargs="+", metavar="FILE", help="a contract")
    check.set_defaults(run=_check)
    _add_ledger(commands)
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
    explain = commands.add_parser("explain", help="what a check looks at, why it matters, how to mend it")
    explain.add_argument(
        "check", metavar="CHECK", help="section::check, as in the node id, or the check alone"
    )
    explain.set_defaults(run=_explain)
    return parser


def _add_ledger(commands: Any) -> None:
    ledger = commands.add_parser("ledger", help="measure a share of the rows on this node, for a later run")
    ledger.add_argument("contract", metavar="CONTRACT", help="the contract, at the same path on every node")
    ledger.add_argument(
        "--shard", type=_share, default=(1, 1), metavar="I/N", help="the I-th of N shares; default: 1/1"
    )
    ledger.add_argument(
        "--cache",
        required=True,
        metavar="DIR",
        help="a folder that all nodes see, the --longctx-cache of that run",
    )
    ledger.add_argument("--jobs", type=int, default=1, metavar="N", help="processes; default: 1")
    ledger.set_defaults(run=_ledger)


def _share(text: str) -> tuple[int, int]:
    share, slash, shares = text.partition("/")
    if not (slash and share.isdecimal() and shares.isdecimal() and 1 <= int(share) <= int(shares)):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected I/N with I from 1 to N, as in 3/8")
    return int(share), int(shares)


def _ledger(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pytest_longctx.contract import load_contract
    from pytest_longctx.engine import measure_share
    from pytest_longctx.errors import LongctxError
    from pytest_longctx.progress import watching
    from pytest_longctx.settings import Settings

    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that there is no torch is no news
    watch = watching(sys.stderr, os.environ, terminal=sys.stderr.isatty())
    settings = Settings(watch=watch, jobs=max(1, arguments.jobs))
    try:
        contract = load_contract(arguments.contract)
        share, shares = arguments.shard
        done = measure_share(contract, share, shares, Path(arguments.cache), settings)
    except LongctxError as error:
        print(error)
        return 1
    rows, packs = sum(one.rows for one in done), sum(len(one.packs) for one in done)
    counts = f"{len(done):,} shards, {rows:,} rows, {packs:,} new packs"
    print(f"{contract.display}: {counts} in {arguments.cache}")
    return 0


def _add_init(commands: Any) -> None:
    init = commands.add_parser("init", help="measure a dataset and write a contract that it passes")
    init.add_argument(
        "data",
        nargs="+",
        metavar="DATA",
        help="files, globs or folders with the rows, or org/name@COMMIT:SPLIT",
    )
    init.add_argument("--tokenizer", metavar="T", help="folder, package:NAME, or org/name@COMMIT on the Hub")
    init.add_argument(
        "--template", metavar="FILE", help="chat template, or trl:NAME; default: the tokenizer's own"
    )
    init.add_argument("-o", "--output", metavar="FILE", help="the contract; default: contracts/<DATA>.yaml")
    init.add_argument("--force", action="store_true", help="write over an existing file")
    init.set_defaults(run=_init)


def _init(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pytest_longctx.errors import LongctxError
    from pytest_longctx.init import Source, propose, refuse_existing, report_lines, write
    from pytest_longctx.progress import watching
    from pytest_longctx.settings import Settings

    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that there is no torch is no news
    try:
        source = Source.of(arguments.data, arguments.tokenizer, arguments.template)
        path = Path(arguments.output or f"contracts/{source.name}.yaml")
        refuse_existing(path, force=arguments.force)
        settings = Settings(watch=watching(sys.stderr, os.environ, terminal=sys.stderr.isatty()))
        proposal = propose(source, settings)
        written = write(proposal, source, path, settings, force=arguments.force)
    except (LongctxError, OSError) as error:
        print(error)
        return 1
    for line in report_lines(proposal, written):
        print(line)
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    from pytest_longctx.checks.explain import page
    from pytest_longctx.errors import LongctxError

    try:
        print(page(arguments.check))
    except LongctxError as error:
        print(error)
        return 1
    return 0


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
