"""pydantic's errors → problems at their places, in the contract's words."""

from __future__ import annotations

import difflib
import types
import typing
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from pytest_longctx.contract.section import Fault, Key

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    "string_too_short": "text that is not empty",
    "literal_error": "{expected}",
    "expected": "{expected}",
    "string_pattern_mismatch": "{pattern}",
}
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
    alternatives: dict[Key, list[tuple[Key, Any]]] = {}
    faults: list[Fault] = []
    for detail in error.errors(include_url=False):
        key, union = _locate(detail["loc"], data)
        if detail["type"] == "faults":
            inner: tuple[Fault, ...] = detail["ctx"]["faults"]
            faults += [Fault((*key, *fault.key), fault.message) for fault in inner]
        elif union is None:
            faults.append(_fault(key, [detail]))
        else:
            alternatives.setdefault(union, []).append((key, detail))
    for branches in alternatives.values():
        faults += _closest(branches)
    return faults


def _locate(loc: tuple[str | int, ...], data: Any) -> tuple[Key, Key | None]:
    """The key path of an error, and the path of the union in it: pydantic puts the tried types into `loc`."""
    key: list[str | int] = []
    union: Key | None = None
    for place, part in enumerate(loc):
        if isinstance(data, dict) and part in data:
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        elif place == len(loc) - 1 and isinstance(data, dict) and not _is_type(part):
            data = None
        else:
            union = tuple(key) if union is None else union
            continue
        key.append(part)
    return tuple(key), union


def _is_type(part: str | int) -> bool:
    """Whether a part of `loc` names a tried type and no key of a section."""
    text = str(part)
    return text in {"str", "dict"} or not text.isidentifier() or text[:1].isupper()


def _closest(branches: list[tuple[Key, Any]]) -> Iterator[Fault]:
    """Of the alternatives of a union, the one that got furthest; all of them when none got in."""
    depth = max(len(key) for key, _ in branches)
    nearest: dict[Key, list[Any]] = {}
    for key, detail in branches:
        if len(key) == depth:
            nearest.setdefault(key, []).append(detail)
    return (_fault(key, details) for key, details in nearest.items())


def _fault(key: Key, details: list[Any]) -> Fault:
    kinds = {detail["type"] for detail in details}
    if "extra_forbidden" in kinds:
        return Fault(key, "unknown key")
    if "missing" in kinds:
        return Fault(key, "missing")
    expected = " or ".join(dict.fromkeys(_expected(detail) for detail in details))
    return Fault(key, f"found {show(details[0]['input'])}, expected {expected}")


def _expected(detail: Any) -> str:
    context = dict(detail.get("ctx") or {})
    if "pattern" in context:
        context["pattern"] = _PATTERNS.get(context["pattern"], context["pattern"])
    phrase = _EXPECTED.get(detail["type"])
    return phrase.format(**context) if phrase else str(detail["msg"])


def nearest(key: Key, model: type[BaseModel]) -> str:
    """What to say of an unknown key: the nearest known one, else all of them."""
    known = sorted({name for parent in _models_at(key[:-1], model) for name in _names(parent)})
    close = difflib.get_close_matches(str(key[-1])[:80], known, n=1, cutoff=0.6)
    return f"unknown key, did you mean {close[0]!r}?" if close else f"unknown key, known: {', '.join(known)}"


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
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        return [model for inner in typing.get_args(annotation) for model in _models_in(inner)]
    return []
