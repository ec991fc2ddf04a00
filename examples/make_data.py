"""Writes the example chats, `examples/data/*.jsonl`; every run writes the same bytes.

    python examples/make_data.py [FOLDER]

Sizes are in characters. With the example tokenizer (3.6 to 4.2 characters a token) they are chosen for a
window of 4,096 tokens: most chats are far below it, some lose the end of a long answer, a few do not fit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chats
from tool_chats import tool_chat
from writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]


def long_tail(seed: str, most: int) -> int:
    """Return a size from 400 to `most` characters: many small ones, few large ones."""
    return min(int(400 * Writer(seed).random.paretovariate(0.7)), most)


def rows() -> Iterator[Row]:
    """Yield all rows, source by source."""
    yield from numbered("support", [chats.support(f"support {n}") for n in range(420)])
    yield from numbered("coding", [*coding()])
    for number in range(240):
        messages, tools = tool_chat(f"tools {number}")
        yield {"uid": f"tools-{number + 1:04}", "source": "tools", "messages": messages, "tools": tools}
    yield from numbered("documents", [*documents()])
    yield from numbered("everyday", [chats.everyday(f"everyday {n}") for n in range(260)])
    yield from numbered("parts", [chats.parts(f"parts {n}") for n in range(40)])


def numbered(source: str, conversations: list[list[chats.Message]]) -> Iterator[Row]:
    """Yield the conversations as rows with a stable id."""
    for number, messages in enumerate(conversations, 1):
        yield {"uid": f"{source}-{number:04}", "source": source, "messages": messages}


def coding() -> Iterator[list[chats.Message]]:
    """Yield short questions and whole modules, some of them longer than the window."""
    for number in range(280):
        yield chats.coding(f"coding {number}")
    for number in range(30):
        yield chats.coding_module(f"module {number}", MODULES[number % len(MODULES)])


def documents() -> Iterator[list[chats.Message]]:
    """Yield questions on documents, and documents written from notes."""
    for number in range(187):
        yield chats.documents(f"document {number}", long_tail(f"size {number}", LONGEST))
    for number, (notes, size) in enumerate(REWRITES):
        yield chats.rewrite(f"rewrite {number}", notes, size)
    for number, size in enumerate(TOO_LONG):
        yield chats.documents(f"too long {number}", size)


LONGEST = 15_000
MODULES = [4_000, 6_000, 8_000, 18_600, 11_000]
REWRITES = [*((1_500 + 60 * n, 18_200 - 40 * n) for n in range(18)), (3_000, 24_000), (14_500, 8_000)]
TOO_LONG = [20_000, 21_500, 23_000]


def main() -> None:
    """Write one file per source into the folder given, by default `data` beside this file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data"
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {}
    for row in rows():
        lines.setdefault(row["source"], []).append(json.dumps(row, ensure_ascii=False) + "\n")
    for source, texts in lines.items():
        (folder / f"{source}.jsonl").write_text("".join(texts), encoding="utf-8", newline="\n")
        print(f"{source}: {len(texts)} chats")


if __name__ == "__main__":
    main()
