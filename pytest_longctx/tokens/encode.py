"""Texts to ids and to the characters of each token, in batches of the Rust tokenizer.

Rust's own offsets cost as much as the ids on long rows. Where a tokenizer works on bytes, the ids alone tell
them: if the bytes of a row's tokens, put together, are the bytes of its text, then each token stands where
those before it end. So the ids come from `encode_batch_fast`, and every row is compared byte for byte. A row
that differs (the tokenizer normalizes its text, or an added token takes white space along) is encoded again,
with offsets. That Rust says the same is tried for the tokenizer on texts of many kinds, and for the rows on
one of each batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pytest_longctx.errors import TokenizerError
from pytest_longctx.tokens.align import monotone
from pytest_longctx.tokens.byte_table import ByteTable, trims, works_on_bytes
from pytest_longctx.tokens.deadline import Native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray
    from tokenizers import Encoding
    from tokenizers import Tokenizer as RustTokenizer

T = TypeVar("T")

# Rust encodes some batches while others are rendered. It takes some hundred bytes a token meanwhile.
BATCH = 64
MAX_CHARACTERS = 1 << 20

_TRIED = 256  # characters of one text a batch
_SECOND_TIMES = 1 / 8  # of a batch encoded twice: more is slower than offsets from the start

PROBES = (
    "Hello, world! It's 12345 and 3.14159\n\n\tfor x in range(10):  print(x)  # don't\r\n",
    "  leading, trailing  and   inner    spaces   \n \n",
    "Zoë naïvely ate crème brûlée — “quoted” … 100 % £5 ½",
    "привет мир; γειά σου; שלום עולם; مرحبا بالعالم; नमस्ते; สวัสดี; 안녕하세요; 你好，世界。こんにちは",
    "🙂 👩‍👩‍👧‍👦 🇩🇪 👍🏽 a\u0301e\u0308 \u200b\u200d\ufeff\u00a0\u2028 \x00\x07\x7f 𝔘𝔫𝔦 𓀀",
    "a",
    "",
)


@dataclass(frozen=True, slots=True)
class Encoded:
    """The tokens of one text.

    ids: int32[T]. offsets: int32[T, 2], the characters of each token. edges: the same made monotone.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int32]
    edges: NDArray[np.int32]


class TextEncoder:
    """The Rust tokenizer, without truncation and padding.

    by_bytes: whether the spans of tokens follow from their bytes; else all come from Rust.
    """

    def __init__(self, rust: RustTokenizer) -> None:
        self.rust = rust
        rust.no_truncation()
        rust.no_padding()
        self._table = ByteTable(rust)
        self._trims = trims(rust)
        self.by_bytes = works_on_bytes(rust) and self._agrees()
        self._adds = bool(self.ids([""], special=True)[0].size)

    def ids(self, texts: list[str], *, special: bool) -> list[NDArray[np.int32]]:
        """Per text int32[T], with the special tokens that the tokenizer adds if they are wanted."""
        encodings = self._begin(self.rust.encode_batch_fast, texts, special).result() if texts else []
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]

    def encode(self, texts: list[str], *, special: bool) -> Iterator[Encoded]:
        """Each text with its spans, in order; the errors are those of `begin`."""
        return self.begin(texts, special=special)()

    def begin(self, texts: list[str], *, special: bool) -> Callable[[], Iterator[Encoded]]:
        """Begin to encode texts as one batch, while this process does other work.

        Returns:
            a function that waits for it, and gives each text with its spans, in order. It raises
            TokenizerError where the tokenizer fails, or contradicts itself.
        """
        if not texts:
            return lambda: iter(())
        if self.by_bytes and not (special and self._adds):
            begun = self._begin(self.rust.encode_batch_fast, texts, special)
            return lambda: self._by_bytes(texts, special, begun.result())
        slower = self._begin(self.rust.encode_batch, texts, special)
        return lambda: map(_from_rust, slower.result())

    def _begin(self, encode: Any, texts: list[str], special: bool) -> Native[list[Encoding]]:
        return Native(partial(encode, texts, add_special_tokens=special), sum(map(len, texts)))

    def _by_rust(self, texts: list[str], special: bool) -> Iterator[Encoded]:
        return map(_from_rust, self._begin(self.rust.encode_batch, texts, special).result() if texts else [])

    def _by_bytes(self, texts: list[str], special: bool, batch: list[Encoding]) -> Iterator[Encoded]:
        self._try(texts[len(texts) // 2][:_TRIED], special)
        found = self._from_bytes(texts, batch)
        others = [text for text, item in zip(texts, found, strict=True) if item is None]
        if sum(map(len, others)) > _SECOND_TIMES * sum(map(len, texts)):
            self.by_bytes = False
        again = self._by_rust(others, special)
        return (next(again) if item is None else item for item in found)

    def _try(self, text: str, special: bool) -> None:
        if not self._same([text], special):
            raise TokenizerError(
                "tokenizer.path: the offsets that the tokenizer gives contradict the bytes of its tokens, "
                f"in a text of {len(text):,} characters that starts {text[:40]!r}"
            )

    def _agrees(self) -> bool:
        added = [token.content for token in self.rust.get_added_tokens_decoder().values()][:64]
        return self._same([*PROBES, " x\n".join(["", *added, ""]), "".join(added)], special=False)

    def _same(self, texts: list[str], special: bool) -> bool:
        """Whether Rust gives the same spans, wherever the bytes tell them."""
        batch = self._begin(self.rust.encode_batch_fast, texts, special).result()
        pairs = zip(self._from_bytes(texts, batch), self._by_rust(texts, special), strict=True)
        return all(
            item is None or (np.array_equal(own.ids, item.ids) and np.array_equal(own.offsets, item.offsets))
            for item, own in pairs
        )

    def _from_bytes(self, texts: list[str], batch: list[Encoding]) -> list[Encoded | None]:
        """Each text whose tokens' bytes are its own, and None for any other."""
        rows = [encoding.ids for encoding in batch]
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        edges = np.append(0, np.cumsum(counts))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(edges[-1]))
        told = self._table.text(ids)
        spans, stops = self._spans(ids, edges, told)
        joined = told.tobytes()
        parts = zip(texts, pairwise(edges.tolist()), pairwise(stops.tolist()), strict=True)
        return [
            self._encoded(ids[first:last], spans[first:last]) if joined[start:stop] == text.encode() else None
            for text, (first, last), (start, stop) in parts
        ]

    def _spans(
        self, ids: NDArray[np.int32], edges: NDArray[np.int64], told: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """int32[T, 2], the characters of its row that hold each token's first and last byte; a column is
        contiguous. And int64[n+1], where each row starts and ends among the bytes.

        edges: int64[n+1], where each row starts and ends among the tokens. told: the bytes of all tokens.
        """
        ends = np.append(0, np.cumsum(self._table.sizes[ids], dtype=np.int64))
        # Characters that begin at a byte or before it.
        characters = np.append(0, np.cumsum((told & 0xC0) != 0x80, dtype=np.int32))
        before = np.repeat(characters[ends[edges[:-1]]], np.diff(edges))
        spans = np.empty((2, len(ids)), dtype=np.int32)
        np.subtract(characters[ends[:-1] + 1] - 1, before, out=spans[0])
        np.subtract(characters[ends[1:]], before, out=spans[1])
        return spans.T, ends[edges]

    def _encoded(self, ids: NDArray[np.int32], spans: NDArray[np.int32]) -> Encoded:
        """The tokens of one text, its spaces left aside where the tokenizer does so."""
        if not self._trims:
            return Encoded(ids, spans, spans)
        leading, trailing = self._table.leading[ids], self._table.trailing[ids]
        starts = np.minimum(spans[:, 0] + leading, spans[:, 1])
        ends = np.maximum(spans[:, 1] - trailing, starts)
        spans = np.stack([starts, np.where(spans[:, 1] >= trailing, ends, spans[:, 1])]).T
        return Encoded(ids, spans, monotone(spans))


def batches(items: Iterable[T], characters: Callable[[T], int]) -> Iterator[list[T]]:
    """Parts of a bounded number of items and characters; an item that is larger is the last of its part."""
    batch: list[T] = []
    size = 0
    for item in items:
        batch.append(item)
        size += characters(item)
        if len(batch) == BATCH or size >= MAX_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _from_rust(encoding: Encoding) -> Encoded:
    pairs = chain.from_iterable(encoding.offsets)
    offsets = np.fromiter(pairs, np.int32, 2 * len(encoding)).reshape(-1, 2)
    return Encoded(np.array(encoding.ids, dtype=np.int32), offsets, monotone(offsets))
