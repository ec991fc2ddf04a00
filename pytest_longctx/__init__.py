"""pytest-longctx: a YAML data contract becomes tests for long-context SFT data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_longctx.check import Report, check_contract
    from pytest_longctx.contract import load_contract
    from pytest_longctx.seed import (
        audit_context_fit,
        build_boundary_isolated_packing,
        check_long_context_framework_conformance,
        evaluate_length_curriculum_stage,
        pack_sample_lengths,
        summarize_length_distribution,
    )
    from pytest_longctx.verdict import Verdict

__version__ = "0.1.0"

__all__ = [
    "Report",
    "Verdict",
    "audit_context_fit",
    "build_boundary_isolated_packing",
    "check_contract",
    "check_long_context_framework_conformance",
    "evaluate_length_curriculum_stage",
    "load_contract",
    "pack_sample_lengths",
    "summarize_length_distribution",
]

# pytest imports this package at every start: a name, with all it needs, is loaded at its first use.
_HOMES = {
    "Report": "pytest_longctx.check",
    "Verdict": "pytest_longctx.verdict",
    "check_contract": "pytest_longctx.check",
    "load_contract": "pytest_longctx.contract",
    "audit_context_fit": "pytest_longctx.seed",
    "build_boundary_isolated_packing": "pytest_longctx.seed",
    "check_long_context_framework_conformance": "pytest_longctx.seed",
    "evaluate_length_curriculum_stage": "pytest_longctx.seed",
    "pack_sample_lengths": "pytest_longctx.seed",
    "summarize_length_distribution": "pytest_longctx.seed",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
