"""The pages of commands, options, hooks and files, from the code; `make_reference.py` writes them."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest_longctx
from pytest_longctx import hookspecs, options, reporting
from pytest_longctx.cli import command_line
from pytest_longctx.evidence import Evidence, link
from pytest_longctx.packing.trainers import TrainerRequest
from pytest_longctx.report.ledger_file import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator


REQUEST = {
    "contract": "The contract; `contract.resolve(path)` is a path of it as a file.",
    "terms": "Its section `packing`, such as `terms.batch_size`.",
    "dataset": "The rows; iterating gives a `Conversation` or a `RowProblem` each. `files` are their paths.",
    "samples": "The usable rows as tokens: `samples[i]` has `ids` and `labels`, uncut.",
    "fed": "Tokens of each sample that the trainer is given, uncut: int64 array; 0 where it is held back.",
    "planned": "Tokens that the window leaves of each sample: int64 array; 0 where it is rejected.",
    "tokenizer": "`tokenizer.backend` is that of transformers, `tokenizer.template` the contract's template.",
    "pack": "`pack()` gives the rows of the contract's packer, over the samples of `feed`.",
    "collate": "`collate(rows)` gives the batch of the contract's collator.",
    "config": "What the contract gives as `config` of the trainer: a dict.",
}

WITHOUT_PYTEST = """\
`check_contract` calls no hooks: neither those of `conftest.py` nor those of installed plugins. It is given by
hand what the contract names and does not ship, and checks of your own; without them the report has errors,
such as that there is no trainer `mine`, and is not `passed`:

```python
from pytest_longctx import Verdict, check_contract
from pytest_longctx.extensions import Extensions


def enough(evidence):
    return Verdict("passed" if evidence.some_samples >= 1000 else "failed", "enough samples")


extensions = Extensions(checks={"enough": enough})  # also packers, collators, trainers and datasets
assert check_contract("contracts/sft.yaml", extensions).passed
```"""


class Recorder:
    """Stands where pytest's parser does, and keeps what is added."""

    def __init__(self) -> None:
        self.options: list[tuple[str, dict[str, Any]]] = []
        self.ini: list[tuple[str, str]] = []

    def addoption(self, name: str, **attributes: Any) -> None:
        """One option."""
        self.options.append((name, attributes))

    def addini(self, name: str, text: str, **attributes: Any) -> None:
        """One ini key."""
        self.ini.append((name, text))


def cli_page() -> str:
    """`cli.md`."""
    lines = ["# Commands and options", "", "Made from the code by `python docs/make_reference.py`.", ""]
    lines += ["## pytest", "", "Write options with `=`.", "", "| option | meaning |", "|---|---|"]
    recorder = Recorder()
    options.add_options(recorder, recorder)  # type: ignore[arg-type]
    reporting.add_options(recorder, recorder)  # type: ignore[arg-type]
    for name, attributes in recorder.options:
        value = (attributes.get("metavar") or "|".join(attributes.get("choices", ()))).replace("|", "\\|")
        lines.append(f"| `{name}{f'={value}' if value else ''}` | {_sentence(attributes['help'])} |")
    lines += ["", "| ini key | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {_sentence(text)} |" for name, text in recorder.ini]
    lines += ["", "Markers: `longctx` on every check, `longctx_SECTION` on those of a section, and `gpu`."]
    for name, purpose, parser in _commands(command_line()):
        lines += ["", f"## longctx {name}", "", purpose]
        if arguments := list(_arguments(parser)):
            lines += ["", "| argument | meaning |", "|---|---|", *arguments]
    lines += ["", "The exit status is 0, or 1 when something is wrong with the files, or 2 for wrong use."]
    return "\n".join(lines) + "\n"


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Name, purpose and parser of each subcommand; argparse has no public way to ask."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for told in action._choices_actions:
                yield told.dest, _sentence(told.help or ""), action.choices[told.dest]


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if "--help" in action.option_strings:
            continue
        value = (action.metavar or "|".join(action.choices or ())).replace("|", "\\|")
        name = ", ".join(action.option_strings)
        shown = f"{name} {value}".strip() if action.nargs != 0 else name
        yield f"| `{shown}` | {_sentence(action.help or '')} |"


def _sentence(text: str) -> str:
    text = text.rstrip(".").replace("<", "&lt;")
    first = text[:1] if "::" in text.split(" ")[0] else text[:1].upper()
    return f"{first}{text[1:]}." if text else ""


def hooks_page() -> str:
    """`hooks.md`."""
    lines = [
        "# Hooks and Python",
        "",
        "Made from the code by `python docs/make_reference.py`.",
        "",
        "Hooks stand in `conftest.py` or in an installed pytest plugin. Each returns names → callables.",
        "Code never comes from a contract: YAML is data.",
    ]
    for name, function in inspect.getmembers(hookspecs, inspect.isfunction):
        if name.startswith("pytest_longctx_"):
            lines += ["", f"## {name}", "", inspect.getdoc(function) or ""]
    lines += ["", *_request()]
    lines += [
        "",
        "## Evidence",
        "",
        "What a check of your own looks at; each is made once, at its first use.",
        "",
    ]
    lines += ["| attribute | what it is |", "|---|---|"]
    for name, member in vars(Evidence).items():
        if isinstance(member, link):
            lines.append(f"| `{name}` | {_sentence((member.__doc__ or '').partition(chr(10))[0])} |")
    lines += [
        "",
        "## Without pytest",
        "",
        "`import pytest_longctx`; every name is loaded at its first use.",
        "",
        WITHOUT_PYTEST,
        "",
    ]
    lines += ["| name | what it is |", "|---|---|"]
    for name in pytest_longctx.__all__:
        text = (inspect.getdoc(getattr(pytest_longctx, name)) or "").partition("\n")[0]
        lines.append(f"| `{name}` | {_sentence(text)} |")
    return "\n".join(lines) + "\n"


def _request() -> Iterator[str]:
    """What a trainer is given; a field without a meaning is an error."""
    yield "## TrainerRequest"
    yield ""
    yield "What a trainer of your own is given: [how to register one](how-to/custom-trainer.md)."
    yield ""
    yield "| attribute | what it is |"
    yield "|---|---|"
    yield from (f"| `{name}` | {REQUEST[name]} |" for name in attributes_of(TrainerRequest))


def attributes_of(kind: type) -> list[str]:
    """Fields of a dataclass, then its properties."""
    properties = [name for name, member in vars(kind).items() if isinstance(member, property)]
    return [*(field.name for field in dataclasses.fields(kind)), *properties]


def report_page() -> str:
    """`report.md`."""
    schema = json.loads(files("pytest_longctx.report").joinpath("report.schema.json").read_text("utf-8"))
    lines = ["# Report files", "", "Made from the code by `python docs/make_reference.py`.", ""]
    lines += ["## JSON report", "", schema["description"]]
    lines += ["The schema itself is `pytest_longctx/report/report.schema.json`.", ""]
    lines += _properties(schema)
    for name, part in schema["$defs"].items():
        lines += ["", f"### {name}", "", part.get("description", ""), "", *_properties(part)]
    lines += ["", "## Ledger", "", "What `--longctx-ledger` writes: Parquet, one row a sample.", ""]
    lines += ["| column | type | meaning |", "|---|---|---|"]
    for name, (kind, nullable, meaning) in COLUMNS.items():
        shown = f"`{kind}`{', or null' if nullable else ''}"
        lines.append(f"| `{name}` | {shown} | {_sentence(meaning)} |")
    return "\n".join(lines) + "\n"


def _properties(part: dict[str, Any]) -> list[str]:
    rows = [
        f"| `{name}` | {_kind(value)} | {value.get('description', '')} |"
        for name, value in part.get("properties", {}).items()
    ]
    return ["| key | type | meaning |", "|---|---|---|", *rows] if rows else [_kind(part)]


def _kind(value: dict[str, Any]) -> str:
    """A schema's type in a word or two; objects by their keys."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "enum" in value or "const" in value:
        return ", ".join(f"`{item}`" for item in value.get("enum", [value.get("const")]))
    if choices := value.get("anyOf") or value.get("oneOf"):
        return " or ".join(map(_kind, choices))
    if value.get("type") == "array":
        return f"list of {_kind(value['items'])}" if "items" in value else "list"
    if value.get("properties"):
        return f"object: {', '.join(f'`{name}`' for name in value['properties'])}"
    kinds = value.get("type", "any")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


PAGES = {"cli.md": cli_page, "hooks.md": hooks_page, "report.md": report_page}
