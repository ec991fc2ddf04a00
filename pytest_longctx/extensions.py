"""What other packages and conftest.py add to the engine, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_longctx.errors import LongctxError

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Extensions:
    """Registered packers, collators, trainers, datasets and checks; plain callables by name.

    A packer is `(samples, max_tokens_per_bin) -> packed rows`, a collator `(rows) -> batch`, a trainer
    `(request) -> deliveries`, a dataset `() -> rows`, a check `(evidence) -> Verdict`.
    """

    packers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    collators: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    trainers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    datasets: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    checks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


def merge(
    kind: str, shipped: Mapping[str, Any], given: list[Mapping[str, Any]]
) -> dict[str, Callable[..., Any]]:
    """One table of what several plugins registered.

    Raises:
        LongctxError: a name is taken, or is no callable.
    """
    merged: dict[str, Callable[..., Any]] = {}
    for table in given:
        for name, entry in table.items():
            if name in shipped or name in merged:
                taken = "ships with pytest-longctx" if name in shipped else "was registered already"
                raise LongctxError(f"the {kind} {name!r} {taken}; register yours under another name")
            if not callable(entry):
                raise LongctxError(f"the {kind} {name!r} is a {type(entry).__name__}, expected a callable")
            merged[name] = entry
    return merged
