"""Every snippet of the documentation is run, in the order of its page.

What stands in an info string or in a comment in front of a block tells what becomes of it:

- A block with `title="…"` is written to that file. Without one, `python` is run, and `yaml` is a contract or
  a part of one, which has to be valid.
- `bash` is run line by line, and has to end with 0, or with N after `<!-- exit: N -->`.
- `text` behind it are lines that its output has, in this order; `…` stands for anything.
- `<!-- skip: reason -->` leaves the next block out, `<!-- needs: MODULE -->` the rest of the page
  where that is not installed.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets  # noqa: F401 - see below
import orjson  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import transformers.models.auto.tokenization_auto
import yaml

from pytest_longctx.cli import main
from pytest_longctx.contract import load_contract
from pytest_longctx.init import proposal

# pytester drops what a run in this process imports, and extension modules cannot be imported twice.
assert transformers.models.auto.tokenization_auto.AutoTokenizer

sybil = pytest.importorskip("sybil")

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
INFO = re.compile(r'(?P<language>\w*)(?: title="(?P<title>[^"]+)")?[^\n]*\n')
REST = """
contract: 1
tokenizer: {path: t}
dataset: {path: d.jsonl}
window: {target_context_len: 4096}
packing: {packer: ffd}
"""


@dataclass
class Reader:
    """One page under way, in a folder of its own."""

    pytester: pytest.Pytester
    exit: int = 0
    skip: bool = False
    apart: bool = False  # in processes of their own: a run drops its imports, and torch's can be made once
    output: str = ""
    seen: list[str] = field(default_factory=list)

    def comment(self, example: Any) -> None:
        kind, value = example.parsed
        if kind == "exit":
            self.exit = int(value)
        elif kind == "skip":
            self.skip = True
        elif find_spec(value) is None:
            pytest.skip(f"the page needs {value}")
        else:
            self.apart = True

    def block(self, example: Any) -> None:
        language, title, source = example.parsed
        wanted, skipped, self.exit, self.skip = self.exit, self.skip, 0, False
        if skipped:
            return
        self.seen.append(language)
        if title:
            path = self.pytester.path / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
        elif language == "bash":
            status = self.run(source)
            assert status == wanted, self.output
        elif language == "python":
            exec(compile(source, example.path, "exec"), {})
        elif language == "yaml":
            self.validate(source)
        elif language == "text" and self.output:
            assert lines_missing(source, self.output) == [], self.output

    def run(self, script: str) -> int:
        self.output, status = "", 0
        for line in script.splitlines():
            command = line.partition("  #")[0].strip()
            word, *arguments = shlex.split(command)
            if word == "pytest":
                done = self.run_pytest(*arguments)
                self.output, status = self.output + done.stdout.str() + done.stderr.str(), int(done.ret)
            elif word == "longctx":
                printed = StringIO()
                with redirect_stdout(printed):
                    status = main([found for word in arguments for found in sorted(globbed(word))])
                self.output += printed.getvalue()
            else:
                shell = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
                self.output, status = self.output + shell.stdout + shell.stderr, shell.returncode
        return status

    def run_pytest(self, *arguments: str) -> pytest.RunResult:
        run = self.pytester.runpytest_subprocess if self.apart else self.pytester.runpytest_inprocess
        return run(*arguments)

    def validate(self, source: str) -> None:
        part = yaml.safe_load(source)
        if (
            not {"contract", *yaml.safe_load(REST), "isolation", "curriculum", "gpu", "baseline"}
            & part.keys()
        ):
            return  # of another tool
        path = self.pytester.path / "part.yaml"
        path.write_text(
            source
            if "contract" in part
            else yaml.safe_dump({**yaml.safe_load(REST), **part}, sort_keys=False)
        )
        load_contract(path)


def globbed(word: str) -> list[str]:
    return [str(path) for path in Path().glob(word)] if "*" in word else [word]


def lines_missing(wanted: str, found: str) -> list[str]:
    """Wanted lines that do not follow in the found ones, in order."""
    rest = iter(line.rstrip() for line in found.splitlines())
    missing = []
    for line in wanted.splitlines():
        pattern = ".*".join(map(re.escape, line.rstrip().split("…")))
        if line.strip() not in ("", "…") and not any(re.fullmatch(pattern, other) for other in rest):
            missing.append(line)
    return missing


def parser(reader: Reader) -> Any:
    lexer = importlib.import_module("sybil.parsers.markdown.lexers").RawFencedCodeBlockLexer(INFO)

    def regions(document: Any) -> Iterator[Any]:
        for match in re.finditer(r"<!-- (exit|skip|needs): (.*?) -->", document.text):
            yield sybil.Region(match.start(), match.end(), match.groups(), reader.comment)
        for region in lexer(document):
            lexemes = region.lexemes
            parsed = (lexemes["language"], lexemes["title"], lexemes["source"])
            yield sybil.Region(region.start, region.end, parsed, reader.block)

    return regions


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the pages use of the repository."""
    (pytester.path / "examples").symlink_to(ROOT / "examples")
    shutil.copytree(ROOT / "contracts", pytester.path / "contracts")
    for name in ("GITHUB_ACTIONS", "PYTEST_ADDOPTS", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    # The reference packer, so that the pages are quick to run.
    monkeypatch.setattr(proposal, "find_spec", lambda name: None)
    return pytester.path


@pytest.mark.parametrize("page", PAGES)
def test_snippets(page: str, pytester: pytest.Pytester, folder: Path) -> None:
    reader = Reader(pytester)
    document = sybil.Sybil([parser(reader)]).parse(ROOT / page)
    for example in document.examples():
        example.evaluate()


def test_what_is_missing_in_an_output_is_found() -> None:
    assert lines_missing("a\n…\nc 1 …\n", "a\nb\nc 1 x\n") == []
    assert lines_missing("a\nd", "a\nb") == ["d"]
    assert lines_missing("b\na", "a\nb") == ["a"]
