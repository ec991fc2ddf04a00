"""JSON texts → values, one at a time: lines, one array, or values one after another. Values are exact."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import math
import re
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import orjson

from pytest_longctx.dataset.fault import RowError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROW_LIMIT = 256 * 2**20  # bytes of one row; a decompression bomb ends here
_CHUNK = 2**20
_SPACE = b" \t\r\n"
_SPACES = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()

# orjson turns integers beyond 64 bits (19 digits or more) into floats without a word.
_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19


def read_json(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (row number from 1, value or `RowError`); raises `RowError` where the file cannot be read on.

    In a file of lines the number is that of the line, so that an editor finds it.
    """
    try:
        with _open(path) as stream:
            yield from _values(stream, path.name.lower().endswith((".json", ".json.gz", ".json.zst")))
    except (OSError, EOFError, zlib.error) as error:
        raise RowError("broken_file", f"the file cannot be read on: {error}") from error


def stands_in_lines(path: Path) -> bool:
    """Whether every row of the file is a line of it as it lies on disk."""
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        return False
    with path.open("rb") as stream:
        head = stream.read(_CHUNK).removeprefix(codecs.BOM_UTF8).lstrip(_SPACE)
    return head.startswith(b"{")


def read_lines(path: Path, start: int, stop: int) -> Iterator[tuple[int, Any]]:
    """Like `read_json`, of the lines that begin in bytes [start, stop); `start` is where one begins."""
    with path.open("rb", buffering=_CHUNK) as stream:
        if not start and stream.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
            start = len(codecs.BOM_UTF8)
        stream.seek(start)
        yield from _lines(stream, stop - start)


def parse(line: bytes) -> Any:
    """The value of one JSON text, exactly, or the `RowError` that it is."""
    if _LONG_NUMBER not in line.translate(_DIGITS_TO_ZERO):
        try:
            return orjson.loads(line)
        except orjson.JSONDecodeError:
            pass  # NaN, half a surrogate pair and deep nesting are left to the standard library
    return _parse_slowly(line)


def _parse_slowly(line: bytes) -> Any:
    try:
        text = line.decode().rstrip("\r\n")  # so that the column of an error lies in the line
        value = json.loads(text)
        _refuse_half_surrogates(value, text, 0, len(text))
    except UnicodeDecodeError as error:
        return RowError(
            "not_utf8",
            f"not UTF-8: byte 0x{line[error.start]:02x} at place {error.start + 1}; save it as UTF-8",
        )
    except json.JSONDecodeError as error:
        return RowError("broken_json", f"not JSON: {error.msg} at column {error.colno}")
    except (ValueError, RecursionError) as error:
        return _beyond_reading(error)
    return value


def _beyond_reading(error: Exception) -> RowError:
    if isinstance(error, UnicodeEncodeError):
        return RowError("half_surrogate", "holds half of a surrogate pair, which no tokenizer can read")
    if isinstance(error, RecursionError):
        return RowError("broken_json", "nested too deeply")
    return RowError("broken_json", "holds a number with thousands of digits")


def _refuse_half_surrogates(value: Any, text: str, start: int, end: int) -> None:
    """Raise UnicodeEncodeError when the value, read from that part of the text, is not encodable."""
    if text.find("\\ud", start, end) >= 0 or text.find("\\uD", start, end) >= 0:
        json.dumps(value, ensure_ascii=False).encode()


def _open(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    if path.suffix.lower() == ".zst":
        return _open_zstd(path)
    return path.open("rb", buffering=_CHUNK)


def _open_zstd(path: Path) -> BinaryIO:
    """Arrow's reader: bounded, of any number of frames, and an error where the file was cut."""
    import pyarrow

    raw = pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd")
    return cast("BinaryIO", io.BufferedReader(raw, _CHUNK))


def _values(stream: BinaryIO, one_text: bool) -> Iterator[tuple[int, Any]]:
    head: bytes = cast("io.BufferedReader", stream).peek(64)
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise RowError("not_utf8", "not UTF-8: begins with the mark of UTF-16; save it as UTF-8")
    if head.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
        head = head[len(codecs.BOM_UTF8) :]
    head = head.lstrip(_SPACE)
    if head.startswith(b"[") and (one_text or head[1:].lstrip(_SPACE)[:1] in (b"{", b"")):
        yield from _elements(_Text(stream))
    elif one_text:
        yield from _concatenated(_Text(stream))
    else:
        yield from _lines(stream)


def _lines(stream: BinaryIO, left: float = math.inf) -> Iterator[tuple[int, Any]]:
    number = 1
    while left > 0 and (line := stream.readline(ROW_LIMIT + 1)):
        left -= len(line)
        if len(line) > ROW_LIMIT:
            raise _too_long()
        if not line.isspace():
            yield number, parse(line)
        number += 1


def _too_long() -> RowError:
    return RowError(
        "row_too_long",
        f"longer than {ROW_LIMIT:,} bytes, or a quote is not closed; the file is read no further",
    )


def _elements(text: _Text) -> Iterator[tuple[int, Any]]:
    text.take()
    if text.next_char() == "]":
        text.take()
    else:
        yield from _filled(text)
    if text.next_char():
        raise RowError("broken_json", "something follows the end of the array; the file is read no further")


def _filled(text: _Text) -> Iterator[tuple[int, Any]]:
    number, separator = 1, ","
    while separator == ",":
        yield number, text.value()
        separator = text.take()
        number += 1
    if separator != "]":
        raise RowError(
            "broken_json", "the row before it is not followed by a comma or ]; the file is read no further"
        )


def _concatenated(text: _Text) -> Iterator[tuple[int, Any]]:
    """Values one after another, on lines of their own or not; after a broken one, on from the next line."""
    number = 1
    while text.next_char():
        try:
            value = text.value()
        except RowError as fault:
            if fault.kind != "broken_json":
                raise
            value = fault
            text.skip_line()
        yield number, value
        number += 1


class _Text:
    """The unread part of a text, which grows on demand."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._position = 0

    def _grow(self) -> bool:
        """Read on, at least as much as is unread: a row is scanned O(log n) times. False at the end."""
        rest = self._text[self._position :]
        if len(rest) > ROW_LIMIT:
            raise _too_long()
        data = self._stream.read(max(_CHUNK, len(rest)))
        try:
            more = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise RowError(
                "not_utf8", "not UTF-8 in or soon after this row; save the file as UTF-8"
            ) from error
        self._text, self._position = rest + more, 0
        return bool(data)

    def next_char(self) -> str:
        """The next character that is not white space, left in place; "" at the end."""
        while True:
            self._position = _SPACES.match(self._text, self._position).end()  # type: ignore[union-attr]  # always matches
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._grow():
                return ""

    def take(self) -> str:
        """The next character that is not white space."""
        char = self.next_char()
        self._position += len(char)
        return char

    def skip_line(self) -> None:
        """Pass over everything up to the next line end."""
        while (end := self._text.find("\n", self._position)) < 0:
            self._position = len(self._text)
            if not self._grow():
                return
        self._position = end + 1

    def value(self) -> Any:
        """The next JSON value; raises `RowError` when it is broken."""
        self.next_char()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._position)
            except json.JSONDecodeError as error:
                if self._may_be_cut(error) and self._grow():
                    continue
                raise RowError("broken_json", f"not JSON: {error.msg}") from error
            except (ValueError, RecursionError) as error:
                raise _beyond_reading(error) from error
            if end == len(self._text) and self._grow():
                continue  # a number may go on
            start, self._position = self._position, end
            try:
                _refuse_half_surrogates(value, self._text, start, end)
            except (ValueError, RecursionError) as error:
                return _beyond_reading(error)
            return value

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Whether the text ended inside the value: the scanner then stops less than an escape before it."""
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - 16
