"""The bytes that each token of a byte-level tokenizer stands for."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer as RustTokenizer

# Byte-level tokenizers write a byte as one visible character: itself, or the next free one from U+0100 on.
_VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]
_BYTES = {chr(byte): byte for byte in _VISIBLE} | {chr(256 + at): byte for at, byte in enumerate(_HIDDEN)}
_SPACE = chr(256 + _HIDDEN.index(32))
_NO_TEXT = b"\xff"  # stands in no UTF-8 text


def works_on_bytes(rust: RustTokenizer) -> bool:
    """Whether the tokenizer merges bytes and puts none in front of a text."""
    from tokenizers.models import BPE

    stages = _stages(rust.pre_tokenizer, "pretokenizers")
    return (
        isinstance(rust.model, BPE)
        and bool(stages)
        and stages[-1].get("type") == "ByteLevel"
        and not any(stage.get("add_prefix_space") for stage in stages)
        and not any(stage.get("trim_offsets") and stage.get("add_prefix_space") for stage in _after(rust))
    )


def trims(rust: RustTokenizer) -> bool:
    """Whether the post-processor takes the spaces around a token off its span."""
    return any(stage.get("trim_offsets") for stage in _after(rust))


def _after(rust: RustTokenizer) -> list[dict[str, Any]]:
    return [stage for stage in _stages(rust.post_processor, "processors") if stage.get("type") == "ByteLevel"]


def _stages(component: Any, parts: str) -> list[dict[str, Any]]:
    """What a component of the tokenizer is made of, in order; nothing where it does not tell."""
    if component is None:
        return []
    try:
        told = json.loads(component.__getstate__())
    # A component that is written in Python cannot be told in JSON.
    except Exception:
        return []
    found: list[dict[str, Any]] = told.get(parts, [told])
    return found


class ByteTable(dict[int, bytes]):
    """Bytes by id, filled as ids are asked for.

    sizes: int32[V], their number. leading, trailing: int32[V], spaces at the start and end of a token. Only
    ids that were asked for are filled in.
    """

    def __init__(self, rust: RustTokenizer) -> None:
        super().__init__()
        self._token = rust.id_to_token
        self._added = {number: token.content for number, token in rust.get_added_tokens_decoder().items()}
        self.sizes, self.leading, self.trailing = np.zeros((3, rust.get_vocab_size() + 1), dtype=np.int32)

    def __missing__(self, number: int) -> bytes:
        token = self._token(number) or ""
        told = (self._added[number].encode() if number in self._added else _decoded(token)) or _NO_TEXT
        self._make_room(number)
        self.sizes[number] = len(told)
        self.leading[number] = len(token) - len(token.lstrip(_SPACE))
        self.trailing[number] = len(token) - len(token.rstrip(_SPACE))
        self[number] = told
        return told

    def _make_room(self, number: int) -> None:
        """Ids may have gaps, so that the largest is larger than their number."""
        lacking = number + 1 - len(self.sizes)
        if lacking > 0:
            columns = (self.sizes, self.leading, self.trailing)
            self.sizes, self.leading, self.trailing = (np.pad(column, (0, lacking)) for column in columns)

    def text(self, ids: list[int]) -> bytes:
        """The bytes of a row of tokens; those of no text where a token stands for none."""
        if len(ids) < 2:
            return b"".join(self[number] for number in ids)
        return b"".join(itemgetter(*ids)(self))


def _decoded(token: str) -> bytes:
    try:
        return bytes(_BYTES[character] for character in token)
    except KeyError:
        return _NO_TEXT
