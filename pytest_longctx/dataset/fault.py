"""What is wrong with a row, before the row has an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class RowError(Exception):
    """A fault of one row. Readers yield it to go on with the next row, and raise it where they cannot go on.

    `kind` is a snake_case reason; `message` never holds the text of the row.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


_JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def json_type(value: object) -> str:
    """The JSON name of a value's type, with its article."""
    return _JSON_NAMES.get(type(value)) or type(value).__name__


def found_type(row: Mapping[str, Any], key: str) -> str:
    """The JSON type under a key, or "missing"."""
    return json_type(row[key]) if key in row else "missing"


def missing_keys(row: Mapping[str, Any], *wanted: str) -> RowError:
    """The fault of a row that lacks keys, or holds null under them."""
    absent = [key for key in wanted if row.get(key) is None]
    lacks = ", ".join(f"{key} (null)" if key in row else key for key in absent)
    return RowError("missing_keys", f"lacks {lacks}; the row has {key_names(row)}")


def key_names(row: Mapping[str, Any], count: int = 12) -> str:
    """The first keys of a row, for a message."""
    names = [str(key)[:40] for key in row]
    return ", ".join(names[:count] + ["…"] * (len(names) > count)) or "no keys"
