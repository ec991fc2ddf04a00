"""What a contract needs installed beyond the core."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from packaging.version import Version

from pytest_longctx.errors import Problem
from pytest_longctx.packing.names import COLLATORS, PACKERS, TRAINERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_longctx.contract import Contract

# The lower bounds of pyproject.toml. Older TRL prepares completions otherwise; older datasets fills in keys.
LEAST = {"trl": "1.15", "torch": "2.6", "datasets": "4.8"}
_MODULES = {"trl": ("trl", "torch", "datasets"), "hub": ("datasets",), "gpu": ("torch",)}


def missing_extras(contract: Contract) -> Iterator[Problem]:
    """One problem per key that needs an absent extra, or a newer release of it, with the line to type."""
    for key, what, extra in _needs(contract):
        lacking = list(filter(None, map(_lacking, _MODULES[extra])))
        if lacking:
            message = f"{what} needs {', '.join(lacking)}: pip install 'pytest-longctx[{extra}]'"
            yield Problem(contract.display, contract.line(*key), 1, ".".join(key), message)


def _lacking(name: str) -> str | None:
    """The package and what is wrong with it here, or None."""
    if find_spec(name) is None:
        return f"{name} (not installed)"
    try:
        found = version(name)
    except PackageNotFoundError:  # a module without a distribution, such as a checkout on the path
        return None
    return f"{name} ≥ {LEAST[name]} (found {found})" if Version(found) < Version(LEAST[name]) else None


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
