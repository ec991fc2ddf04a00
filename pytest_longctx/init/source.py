"""What a new contract is made from: data, tokenizer and template, as the command line names them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.contract.sources import looks_like_hub_id
from pytest_longctx.errors import LongctxError

if TYPE_CHECKING:
    from collections.abc import Callable

_COMMIT = re.compile(r"(?P<path>.+)@(?P<revision>[0-9a-f]{40})")


@dataclass(frozen=True)
class Source:
    """Data, tokenizer and template of a contract.

    Paths are relative to the folder that they are used from, or absolute. revision: the commit of a Hub id.
    """

    data: tuple[str, ...]
    tokenizer: str | None = None
    revision: str | None = None
    template: str | None = None

    @classmethod
    def of(cls, data: list[str], tokenizer: str | None, template: str | None) -> Source:
        """From the command line's words.

        Raises:
            LongctxError: the tokenizer is neither a folder, a package, nor a Hub id with its commit.
        """
        for path in data:
            if path.startswith("registered:") or (looks_like_hub_id(path) and not Path(path).exists()):
                raise LongctxError(
                    f"{path}: there is no such file; init reads files (.jsonl .json .parquet .arrow), globs "
                    "and folders. For a Hub id or a registered dataset, start from a contract of files and "
                    "change dataset.path"
                )
        if tokenizer is None or tokenizer.startswith("package:") or Path(tokenizer).exists():
            return cls(tuple(data), tokenizer, None, template)
        named = _COMMIT.fullmatch(tokenizer)
        if named is None or not looks_like_hub_id(named["path"]):
            raise LongctxError(
                f"--tokenizer {tokenizer}: there is no such folder; give the folder with tokenizer.json, "
                "package:NAME, or a Hub id with its commit, as in org/name@<40 hexadecimal digits>"
            )
        return cls(tuple(data), named["path"], named["revision"], template)

    @property
    def name(self) -> str:
        """A name for the contract: the first file's or folder's, in letters of a file name."""
        path = Path(self.data[0]).absolute()
        parts = [
            part.partition(".")[0] for part in reversed(path.parts) if "*" not in part and "?" not in part
        ]
        words = (re.sub(r"\W+", "-", part).strip("-") for part in parts)
        return next(filter(None, words), "data")

    def seen_from(self, folder: Path) -> Source:
        """The same source for a contract in `folder`."""
        return self._mapped(lambda path: _relative(path, folder))

    def absolute(self) -> Source:
        """The same source for a contract anywhere."""
        return self._mapped(os.path.abspath)

    def _mapped(self, place: Callable[[str], str]) -> Source:
        template, tokenizer = self.template, self.tokenizer
        if template is not None and not template.startswith("trl:"):
            template = place(template)
        if tokenizer is not None and not tokenizer.startswith("package:") and self.revision is None:
            tokenizer = place(tokenizer)
        return replace(self, data=tuple(map(place, self.data)), tokenizer=tokenizer, template=template)

    def terms(self) -> dict[str, Any]:
        """The sections tokenizer and dataset of a contract."""
        tokenizer = {"path": self.tokenizer, "revision": self.revision, "chat_template": self.template}
        path: Any = self.data[0] if len(self.data) == 1 else list(self.data)
        return {
            **(
                {"tokenizer": {k: v for k, v in tokenizer.items() if v is not None}} if self.tokenizer else {}
            ),
            "dataset": {"path": path},
        }


def _relative(path: str, folder: Path) -> str:
    """A path as seen from a folder; absolute where there is no such way."""
    try:
        found = Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive on Windows
        return os.path.abspath(path)  # noqa: PTH100 - links stay as they are named
    return f"./{found}" if looks_like_hub_id(found) else found
