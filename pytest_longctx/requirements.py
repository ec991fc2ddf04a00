"""What a contract needs installed beyond the core."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_longctx.errors import Problem
from pytest_longctx.packing.names import COLLATORS, PACKERS, TRAINERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_longctx.contract import Contract

_MODULES = {"trl": ("trl", "torch", "datasets"), "hub": ("datasets",), "gpu": ("torch",)}


def missing_extras(contract: Contract) -> Iterator[Problem]:
    """One problem per key that needs an absent extra, with the line to type."""
    for key, what, extra in _needs(contract):
        absent = [name for name in _MODULES[extra] if find_spec(name) is None]
        if absent:
            message = (
                f"{what} needs {', '.join(absent)}, not installed here: pip install 'pytest-longctx[{extra}]'"
            )
            yield Problem(contract.display, contract.line(*key), 1, ".".join(key), message)


def _needs(contract: Contract) -> Iterator[tuple[tuple[str, ...], str, str]]:
    template = contract.tokenizer.chat_template if contract.tokenizer else None
    if template is not None and template.startswith("trl:") and find_spec("trl") is None:
        yield ("tokenizer", "chat_template"), template, "trl"
    if contract.dataset.hub:
        yield ("dataset", "path"), "a Hub id", "hub"
    if contract.isolation is not None:
        yield ("isolation",), "a model on CPU", "gpu"
    packing = contract.packing
    if packing is None:
        return
    named = [("packer", packing.packer.name, PACKERS), ("collator", packing.collator.name, COLLATORS)]
    if packing.trainer is not None:
        named.append(("trainer", packing.trainer.name, TRAINERS))
    for key, name, known in named:
        extra = known.get(name)
        if extra is not None:
            yield ("packing", key), f"{key} {name}", extra
