"""Writes `data.jsonl`: 24 chats, four of them with a document of about 128,000 tokens ahead of the answer.

    python examples/long_answers/make_data.py [FILE]

Every run writes the same bytes. Token counts are of the example tokenizer and template.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]

WORDS = (
    *("harbour", "meadow", "copper", "lantern", "orchard", "granite"),
    *("willow", "ember", "saddle", "anchor", "thorn", "candle"),
)


def rows() -> Iterator[Row]:
    """The four long chats stand between the short ones."""
    for number in range(20):
        if number % 5 == 2:
            yield long_chat(number // 5 + 1)
        yield short_chat(number + 1)


def long_chat(number: int) -> Row:
    """A document, a question about its last line, and the answer: nothing is trained before the end."""
    dice = random.Random(number)
    lines = [f"{line}. " + " ".join(dice.choices(WORDS, k=16)) for line in range(1, 2480 + 40 * number)]
    code = dice.randrange(1000, 10000)
    question = "\n".join([*lines, f"The code is {code}.", "", "Which code stands in the last line?"])
    return chat(f"long-{number}", question, f"The code in the last line is {code}.")


def short_chat(number: int) -> Row:
    """A question of a few words."""
    word = WORDS[number % len(WORDS)]
    question = f"Spell the word {word}, letter by letter, with a space between the letters."
    return chat(f"short-{number}", question, f"Letter by letter, {word} is spelled so: {' '.join(word)}")


def chat(uid: str, question: str, answer: str) -> Row:
    """One row."""
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"uid": uid, "messages": turns}


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
