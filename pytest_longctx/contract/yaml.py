"""YAML text → plain data and the place of every key, by the core rules of YAML 1.2.

PyYAML's parser and composer do the syntax. Meaning is given here, because PyYAML follows YAML 1.1:
there `1e-3` is text, `no` is false, `12:30` is 750 and a repeated key silently wins.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

if TYPE_CHECKING:
    from pytest_longctx.contract.section import Key

MAX_DEPTH = 50
MAX_NODES = 10_000

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?(\.inf|\.Inf|\.INF)")
_NOT_A_NUMBER = re.compile(r"\.nan|\.NaN|\.NAN")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, from 1."""

    line: int
    column: int


START = Place(1, 1)


class YamlError(Exception):
    """One fault of the text, at its place; the load ends with it."""

    def __init__(self, place: Place, message: str, key: Key = ()) -> None:
        super().__init__(message)
        self.place, self.message, self.key = place, message, key


@dataclass
class Document:
    """The data of a file, and where each of its keys and values stands."""

    data: Any = None
    keys: dict[Key, Place] = field(default_factory=dict)
    values: dict[Key, Place] = field(default_factory=dict)
    faults: list[YamlError] = field(default_factory=list)

    def key(self, key: Key) -> Place:
        """Place of a key, or of the nearest parent that exists."""
        while key and key not in self.keys:
            key = key[:-1]
        return self.keys.get(key, START)

    def value(self, key: Key) -> Place:
        """Place of a value, or of the nearest parent's key."""
        return self.values.get(key) or self.key(key)


class _Nodes(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML up to the node graph, with bounded depth and size, and without tags."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self.depth = self.count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        place = _place(event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise YamlError(place, f"found the tag {event.tag[:40]!r}: tags are not allowed, leave it out")
        self.count += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise YamlError(place, f"nested more than {MAX_DEPTH} levels deep")
        if self.count > MAX_NODES:
            raise _too_large(place)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


def _too_large(place: Place) -> YamlError:
    return YamlError(place, f"more than {MAX_NODES:,} values, with aliases (*name) counted each time")


def resolve(text: str) -> Any:
    """The value of a plain (unquoted) scalar. Raises OverflowError for numbers out of range."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text[0] in "tT"
    if _INT.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        return _finite(text)
    if _INFINITE.fullmatch(text):
        return -math.inf if text.startswith("-") else math.inf
    return math.nan if _NOT_A_NUMBER.fullmatch(text) else text


def _integer(text: str) -> int:
    # Python refuses to convert thousands of digits, and takes quadratic time for fewer.
    if len(text) > 40:
        raise OverflowError
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    number = int(text, base) if base != 10 else int(text)
    if not -(2**63) <= number < 2**63:
        raise OverflowError
    return number


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise OverflowError
    return number


class _Builder:
    """Nodes → plain data; aliases are expanded and counted."""

    def __init__(self) -> None:
        self.document = Document()
        self.count = 0
        self.open: set[int] = set()

    def build(self, node: yaml.Node, key: Key) -> Any:
        place = _place(node.start_mark)
        self.document.values[key] = place
        self.count += 1
        if self.count > MAX_NODES:
            raise _too_large(place)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, key, place)
        if id(node) in self.open:
            raise YamlError(place, "an alias (*name) inside its own anchor (&name)", key)
        # Aliases nest without nesting the text.
        if len(self.open) >= MAX_DEPTH:
            raise YamlError(place, f"nested more than {MAX_DEPTH} levels deep", key)
        self.open.add(id(node))
        value = self._mapping(node, key) if isinstance(node, yaml.MappingNode) else self._list(node, key)
        self.open.remove(id(node))
        return value

    def _fault(self, place: Place, message: str, key: Key) -> None:
        self.document.faults.append(YamlError(place, message, key))

    def _list(self, node: yaml.Node, key: Key) -> list[Any]:
        values = []
        for place, child in enumerate(node.value):
            self.document.keys[(*key, place)] = _place(child.start_mark)
            values.append(self.build(child, (*key, place)))
        return values

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for name_node, child in node.value:
            place = _place(name_node.start_mark)
            name = self._name(name_node, place, key)
            if name is None:
                continue
            if name in mapping:
                first = self.document.keys[(*key, name)].line
                self._fault(place, f"the key stands twice, first in line {first}", (*key, name))
                continue
            self.document.keys[(*key, name)] = place
            mapping[name] = self.build(child, (*key, name))
        return mapping

    def _name(self, node: yaml.Node, place: Place, key: Key) -> str | None:
        """The name of a key, or None when it cannot be one."""
        if not isinstance(node, yaml.ScalarNode):
            self._fault(place, "found a list or mapping as a key, expected text", key)
            return None
        name = self._scalar(node, key, place)
        if not isinstance(name, str):
            self._fault(place, f"found the key {node.value[:40]!r}, expected text: put it in quotes", key)
            return None
        if name == "<<" and node.style is None:
            self._fault(place, "merge keys (<<) are not part of YAML 1.2: write the keys out", key)
            return None
        return name

    def _scalar(self, node: yaml.ScalarNode, key: Key, place: Place) -> Any:
        if _UNUSABLE.search(node.value):
            self._fault(place, "the text holds a NUL or half of a surrogate pair", key)
            return ""
        if node.style is not None:
            return node.value
        try:
            return resolve(node.value)
        except OverflowError:
            shown = node.value if len(node.value) <= 40 else f"{node.value[:37]}…"
            self._fault(place, f"the number {shown} is out of range (64 bits)", key)
            return 0


def parse(text: str) -> Document:
    """The one document of a YAML text; `faults` lists what was refused on the way.

    Raises:
        YamlError: the text cannot be read any further.
    """
    nodes = _nodes(text)
    builder = _Builder()
    if nodes is not None:
        builder.document.data = builder.build(nodes, ())
    return builder.document


def _nodes(text: str) -> yaml.Node | None:
    loader: _Nodes | None = None
    try:
        loader = _Nodes(text)
        node: yaml.Node | None = loader.get_single_node()
    except ReaderError as error:
        before = text[: error.position]
        place = Place(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise YamlError(place, f"the character U+{ord(text[error.position]):04X} is not allowed") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(_place(mark) if mark else START, f"not YAML: {_reason(error)}") from None
    except (ValueError, OverflowError):
        # PyYAML lets these through for `"\UFFFFFFFF"` and for huge version numbers.
        place = Place(loader.line + 1, loader.column + 1) if loader else START
        raise YamlError(place, "not YAML: a number or escape that does not exist") from None
    return node


def _reason(error: yaml.MarkedYAMLError) -> str:
    return ", ".join(part for part in (error.context, error.problem) if part)
