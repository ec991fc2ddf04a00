"""What an entry follows from: the row's content; and tokenizer, template, policy and code."""

from __future__ import annotations

import hashlib
import marshal
import platform
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from pytest_longctx.contract import SupervisionSection
    from pytest_longctx.dataset import Conversation
    from pytest_longctx.tokens.tokenizer import Tokenizer

KEY_BYTES = 16
_LIBRARIES = ("transformers", "tokenizers", "jinja2", "numpy")
_CODE = ("tokens", "dataset", "cache")
# Version 2 writes each value in full: later ones depend on which objects are shared.
_MARSHAL = 2
# A template that reads the clock or draws lots renders the same row otherwise another time.
_UNSTEADY = re.compile(r"strftime_now|random")


def row_key(row: Conversation) -> bytes | None:
    """BLAKE2b, 16 bytes, over all of a row that its tokens and labels follow from: not its id or place.

    None where the row holds a value that is no JSON.
    """
    content = (
        row.messages,
        row.prompt,
        row.completion,
        row.text,
        row.input_ids,
        row.labels,
        row.tools,
        row.template_kwargs,
    )
    try:
        written = marshal.dumps(content, _MARSHAL)
    except ValueError:
        return None
    return hashlib.blake2b(written, digest_size=KEY_BYTES).digest()


def settings_key(tokenizer: Tokenizer, terms: SupervisionSection) -> str | None:
    """40 hex digits over all but the row that an entry follows from; None where no row can be known."""
    for one in (tokenizer, tokenizer.with_tools):
        if one is not None and one.template is not None and _UNSTEADY.search(one.template):
            return None
    settings = {
        "tokenizer": tokenizer.fingerprint,
        "supervision": terms.model_dump(mode="json"),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "python": platform.python_version(),
        "code": _code(),
    }
    return hashlib.sha256(orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)).hexdigest()[:40]


@cache
def _code() -> str:
    """SHA-256 over this package's own code from row to entry: no release of it trusts another's entries."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for room in _CODE for path in (package / room).glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
