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
_PINNED = re.compile(
    r"(?P<path>[^@]+)@(?P<revision>[0-9a-f]{40})(:((?P<config>[^:]+):)?(?P<split>[^:]+))?",
)
_ON_THE_HUB = (
    "a dataset on the Hub is named with its commit and its split, as in "
    "org/name@<40 hexadecimal digits>:train, or …:CONFIG:train where it has configurations"
)


@dataclass(frozen=True)
class Source:
    """Data, tokenizer and template of a contract.

    Paths are relative to the folder that they are used from, or absolute. revision: the commit of the
    tokenizer's Hub id. pin: revision, split and config of a dataset on the Hub, whose id is then all of data.
    """

    data: tuple[str, ...]
    tokenizer: str | None = None
    revision: str | None = None
    template: str | None = None
    pin: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, data: list[str], tokenizer: str | None, template: str | None) -> Source:
        """From the command line's words.

        Raises:
            LongctxError: the data is neither files nor a Hub id with its commit and split, or the tokenizer
                neither a folder, a package, nor a Hub id with its commit.
        """
        paths, pin = _data(data)
        if tokenizer is None or tokenizer.startswith("package:") or Path(tokenizer).exists():
            return cls(paths, tokenizer, None, template, pin)
        named = _COMMIT.fullmatch(tokenizer)
        if named is None or not looks_like_hub_id(named["path"]):
            raise LongctxError(
                f"--tokenizer {tokenizer}: there is no such folder; give the folder with tokenizer.json, "
                "package:NAME, or a Hub id with its commit, as in org/name@<40 hexadecimal digits>"
            )
        return cls(paths, named["path"], named["revision"], template, pin)

    @property
    def name(self) -> str:
        """A name for the contract: the first file's, folder's or dataset's, in letters of a file name."""
        if self.pin:
            return re.sub(r"\W+", "-", self.data[0].rpartition("/")[2]).strip("-")
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
        data = self.data if self.pin else tuple(map(place, self.data))
        return replace(self, data=data, tokenizer=tokenizer, template=template)

    def terms(self) -> dict[str, Any]:
        """The sections tokenizer and dataset of a contract."""
        tokenizer = {"path": self.tokenizer, "revision": self.revision, "chat_template": self.template}
        path: Any = self.data[0] if len(self.data) == 1 else list(self.data)
        return {
            **(
                {"tokenizer": {k: v for k, v in tokenizer.items() if v is not None}} if self.tokenizer else {}
            ),
            "dataset": {"path": path, **dict(self.pin)},
        }


def _data(words: list[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Paths of files, or one Hub id with its pin."""
    named = [_pinned(word) for word in words]
    if not any(pin for _, pin in named):
        return tuple(words), ()
    if len(words) > 1:
        raise LongctxError(f"{', '.join(words)}: a contract reads one dataset on the Hub, or files; name one")
    ((path, pin),) = named
    return (path,), pin


def _pinned(word: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A Hub id and what pins it; a path of files as it is."""
    if Path(word).exists():
        return word, ()
    if word.startswith("registered:"):
        raise LongctxError(
            f"{word}: init reads files and datasets on the Hub; for a registered dataset start from a "
            "contract of files and change dataset.path"
        )
    named = _PINNED.fullmatch(word)
    if named is None or not looks_like_hub_id(named["path"]):
        if looks_like_hub_id(word.partition("@")[0]):
            raise LongctxError(f"{word}: there is no such file or folder; {_ON_THE_HUB}")
        return word, ()
    if named["split"] is None:
        raise LongctxError(f"{word}: the split is missing; {_ON_THE_HUB}")
    pin = {name: named[name] for name in ("revision", "config", "split")}
    return named["path"], tuple((name, value) for name, value in pin.items() if value is not None)


def _relative(path: str, folder: Path) -> str:
    """A path as seen from a folder; absolute where there is no such way."""
    try:
        found = Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive on Windows
        return os.path.abspath(path)  # noqa: PTH100 - links stay as they are named
    return f"./{found}" if looks_like_hub_id(found) else found
