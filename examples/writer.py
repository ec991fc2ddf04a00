"""Writes varied text from the lists in `grammar/*.txt`, the same text for the same seed."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

GRAMMAR = Path(__file__).parent / "grammar"
_SLOT = re.compile(r"\{(?:(\d+)-(\d+)|(\*?)([A-Za-z_]+))\}")


@cache
def read_grammar(name: str) -> dict[str, list[str]]:
    """Return the lists of `grammar/<name>.txt`: one choice a line, or below `[[name]]`, one between `---`."""
    text = (GRAMMAR / f"{name}.txt").read_text(encoding="utf-8")
    parts = re.split(r"^(\[+)([a-z_]+)\]+\n", text, flags=re.MULTILINE)[1:]
    lists = {}
    for brackets, key, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if brackets == "[[":
            lists[key] = [block.rstrip("\n") for block in body.split("---\n")]
        else:
            lists[key] = [line.replace("\\n", "\n") for line in body.splitlines() if line]
    return lists


class Writer:
    """Fills templates: a slot keeps its first value for the whole chat, a starred slot never does."""

    def __init__(self, seed: str, *grammars: str) -> None:
        self.random = random.Random(seed)
        self.lists = {
            key: value for name in ("words", *grammars) for key, value in read_grammar(name).items()
        }
        self.facts: dict[str, str] = {}

    def chance(self, share: float) -> bool:
        """Return True in `share` of the calls."""
        return self.random.random() < share

    def between(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return self.random.randint(low, high)

    def one(self, key: str) -> str:
        """Return a filled choice of the list `key`."""
        return self.fill(self.random.choice(self.lists[key]))

    def some(self, key: str, count: int) -> list[str]:
        """Return `count` filled choices of the list `key`, without repeats while the list lasts."""
        lines: list[str] = []
        while len(lines) < count:
            choices = self.lists[key]
            lines += self.random.sample(choices, min(len(choices), count - len(lines)))
        return [self.fill(line) for line in lines]

    def fill(self, template: str) -> str:
        """Return `template` with every slot filled; an unknown slot is a KeyError."""
        return _SLOT.sub(self._slot, template)

    def _slot(self, match: re.Match[str]) -> str:
        low, high, star, name = match.groups()
        if low:
            return str(self.between(int(low), int(high))).zfill(len(low))
        key = name.lower()
        if star or key not in self.facts:
            value = self.one(key)
            self.facts.setdefault(key, value)
        if not star:
            value = self.facts[key]
        return value[:1].upper() + value[1:] if name[0].isupper() else value
