"""The bytes that each token of a byte-level tokenizer stands for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
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


class ByteTable:
    """The bytes of each token, kept from when the token is met first.

    sizes: int32[V], their number. leading, trailing: int32[V], spaces at the start and end of a token. Only
    tokens that were met are filled in.
    """

    def __init__(self, rust: RustTokenizer) -> None:
        self._token = rust.id_to_token
        self._added = {number: token.content for number, token in rust.get_added_tokens_decoder().items()}
        self._bytes = np.empty(0, dtype=np.uint8)
        self._starts: NDArray[np.int64] = np.full(rust.get_vocab_size() + 1, -1, dtype=np.int64)
        self.sizes, self.leading, self.trailing = np.zeros((3, len(self._starts)), dtype=np.int32)

    def text(self, ids: NDArray[np.int32]) -> NDArray[np.uint8]:
        """The bytes of tokens, one after the other; those of no text where a token stands for none."""
        self._meet(ids)
        sizes = self.sizes[ids]
        ends = np.cumsum(sizes, dtype=np.int64)
        places = np.repeat(self._starts[ids] - ends + sizes, sizes)
        places += np.arange(len(places))
        return self._bytes[places]

    def _meet(self, ids: NDArray[np.int32]) -> None:
        self._make_room(int(ids.max(initial=0)))
        new = np.unique(ids[self._starts[ids] < 0]).tolist()
        told = [self._told(number) for number in new]
        self._starts[new] = len(self._bytes) + np.cumsum([0, *map(len, told)])[:-1]
        self._bytes = np.append(self._bytes, np.frombuffer(b"".join(told), dtype=np.uint8))

    def _told(self, number: int) -> bytes:
        token = self._token(number) or ""
        told = (self._added[number].encode() if number in self._added else _decoded(token)) or _NO_TEXT
        self.sizes[number] = len(told)
        self.leading[number] = len(token) - len(token.lstrip(_SPACE))
        self.trailing[number] = len(token) - len(token.rstrip(_SPACE))
        return told

    def _make_room(self, number: int) -> None:
        """Ids may have gaps, so that the largest is larger than their number."""
        lacking = number + 1 - len(self.sizes)
        if lacking > 0:
            columns = (self.sizes, self.leading, self.trailing)
            self.sizes, self.leading, self.trailing = (np.pad(column, (0, lacking)) for column in columns)
            self._starts = np.pad(self._starts, (0, lacking), constant_values=-1)


def _decoded(token: str) -> bytes:
    try:
        return bytes(_BYTES[character] for character in token)
    except KeyError:
        return _NO_TEXT
