"""Errors that a user can mend. Their text is complete: what was found, what was expected, what to do."""

from __future__ import annotations

import importlib
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType


class LongctxError(Exception):
    """A fault in the user's input; its text is shown as it is, without a traceback."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a contract, at a place in its file. `line` and `column` count from 1."""

    file: str
    line: int
    column: int
    key: str
    message: str

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        return f"{self.file}:{self.line}:{self.column}: {key}{self.message}"


class ContractError(LongctxError):
    """All the problems of a contract at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class DatasetError(LongctxError):
    """The dataset as a whole cannot be read."""


class TokenizerError(LongctxError):
    """The tokenizer or the chat template cannot be used."""


class PackingError(LongctxError):
    """A packer, collator or trainer gave something that cannot be checked."""


class MissingExtraError(LongctxError):
    """An optional dependency is absent."""


_INSTALLED = "site-packages"


@contextmanager
def naming(maker: str, kind: type[LongctxError] = LongctxError) -> Iterator[None]:
    """Whatever a user's code raises becomes an error that names the code."""
    try:
        yield
    except LongctxError:
        raise
    except Exception as error:
        raise kind(f"{maker} raised {type(error).__name__}: {reason(error)}{_place(error)}") from error


def reason(error: Exception) -> str:
    """An exception's text, but where it quotes values of rows, as pyarrow's does."""
    if type(error).__module__.startswith("pyarrow"):
        return "its text may quote rows, and is not shown"
    return str(error)


def _place(error: Exception) -> str:
    """The line of a user's code that raised it, or that called the library which did."""
    ours, standard = str(Path(__file__).parent), str(Path(traceback.__file__).parent)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(ours)]
    own = [one for one in frames if not one.filename.startswith(standard) and _INSTALLED not in one.filename]
    own = own or frames
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {module.partition('.')[0]}, which is not installed ({error}): "
            f"pip install 'pytest-longctx[{extra}]'"
        ) from error
