"""pydantic's errors → problems at their places, in the contract's words."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections import Counter
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from pytest_longctx.contract.section import Fault, Key

UNKNOWN = "unknown key"

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "finite_number": "a finite number",
    "blank": "text that is not blank",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} in the list",
    "string_too_long": "at most {max_length} characters",
    "too_long": "a length of at most {max_length}",
    "string_too_short": "text that is not empty",
    "literal_error": "{expected}",
    "expected": "{expected}",
    "string_pattern_mismatch": "{pattern}",
}
_STRANGE = frozenset({"extra_forbidden", "missing"})
_PATTERNS = {
    "^[0-9a-f]{40}$": "a commit: 40 hexadecimal digits (0-9, a-f)",
    "^[a-z0-9_]+$": "a name of small letters, digits and _",
    "^sha256:[0-9a-f]{64}$": "sha256: and 64 hexadecimal digits",
    r"^[a-z]+::[a-z0-9_]+(::[^\s]+)?$": "section::check, as in the node id",
}


def show(value: Any) -> str:
    """A short description of a value, on one line, without control characters."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | BaseModel):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"text {value!r}" if len(value) <= 40 else f"text {value[:37]!r}…"
    return f"{value!r}"[:40]


def faults_of(error: ValidationError, data: Any) -> list[Fault]:
    """The faults of a failed validation, one per place, with key paths as in the data."""
    faults: list[Fault] = []
    unions: dict[Key, list[_Located]] = {}
    for detail in error.errors(include_url=False):
        found = _locate(detail, data)
        if detail["type"] == "faults":
            inner: tuple[Fault, ...] = detail["ctx"]["faults"]
            faults += [Fault((*found.key, *fault.key), fault.message) for fault in inner]
        elif found.union is None:
            faults.append(_fault([found]))
        else:
            unions.setdefault(found.union, []).append(found)
    for alternatives in unions.values():
        faults += _closest(alternatives)
    return faults


@dataclass(frozen=True, slots=True)
class _Located:
    """A pydantic error, and where it is: pydantic mixes the tried types of a union into the path."""

    key: Key
    detail: Any
    union: Key | None = None
    branch: str = ""


def _locate(detail: Any, data: Any) -> _Located:
    key: list[str | int] = []
    union: tuple[Key, str] | None = None
    for place, part in enumerate(detail["loc"], start=1):
        inside = _has(data, part)
        absent = place == len(detail["loc"]) and detail["type"] == "missing"
        if inside or absent:
            data = data[part] if inside else None
            key.append(part)
        elif union is None:
            union = (tuple(key), str(part))
    return _Located(tuple(key), detail, *(union or ()))


def _has(data: Any, part: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def _closest(alternatives: list[_Located]) -> list[Fault]:
    """Of the alternatives of a union, the one that got furthest; all of them when none got in.

    Of several as far, the one with the fewest keys that are missing or unknown: it is the one that was meant.
    """
    depth = max(len(found.key) for found in alternatives)
    furthest = {found.branch for found in alternatives if len(found.key) == depth}
    strange = Counter(found.branch for found in alternatives if found.detail["type"] in _STRANGE)
    fewest = min(strange[branch] for branch in furthest)
    branches = {branch for branch in furthest if strange[branch] == fewest}
    places: dict[Key, list[_Located]] = {}
    for found in alternatives:
        if found.branch in branches:
            places.setdefault(found.key, []).append(found)
    return [_fault(found) for found in places.values()]


def _fault(found: list[_Located]) -> Fault:
    """One fault for the errors at one place."""
    key, value = found[0].key, found[0].detail["input"]
    kinds = {each.detail["type"] for each in found}
    if "extra_forbidden" in kinds:
        return Fault(key, UNKNOWN)
    if "missing" in kinds:
        return Fault(key, "missing")
    expected = " or ".join(dict.fromkeys(_expected(each.detail) for each in found))
    return Fault(key, f"found {show(value)}, expected {expected}{_hint(value, expected)}")


def _expected(detail: Any) -> str:
    context = {name: _number(value) for name, value in detail.get("ctx", {}).items()}
    if "pattern" in context:
        context["pattern"] = _PATTERNS.get(context["pattern"], context["pattern"])
    phrase = _EXPECTED.get(detail["type"])
    return phrase.format(**context) if phrase else str(detail["msg"])


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _hint(value: Any, expected: str) -> str:
    """The nearest of the quoted words that were expected."""
    close = _close(value, re.findall(r"'([a-z0-9_]+)'", expected)) if isinstance(value, str) else None
    return f"; did you mean {close!r}?" if close else ""


def _close(word: str, known: list[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word[:80], known, n=1)), None)


def nearest(key: Key, model: type[BaseModel]) -> str:
    """What to say of an unknown key: the nearest known one, else all of them."""
    known = sorted({name for parent in _models_at(key[:-1], model) for name in _names(parent)})
    close = _close(str(key[-1]), known)
    return f"{UNKNOWN}, did you mean {close!r}?" if close else f"{UNKNOWN}, known: {', '.join(known)}"


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_at(key: Key, model: type[BaseModel]) -> list[type[BaseModel]]:
    """The models that may stand at a key path."""
    models = [model]
    for part in key:
        if isinstance(part, int):
            continue
        fields = [m.model_fields[part] for m in models if part in m.model_fields]
        models = [inner for field in fields for inner in _models_in(field.annotation)]
    return models


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        return [model for inner in typing.get_args(annotation) for model in _models_in(inner)]
    return [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []
