"""Imports point downward only, and the engine knows nothing of pytest."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "pytest_longctx"
LAYERS = [
    {"errors", "witness", "verdict", "sections", "settings", "extensions", "bounded", "progress"},
    {"contract"},
    {"dataset"},
    {"tokens", "cache"},
    {"engine", "window", "lengths", "curriculum", "metrics", "intervals", "packing", "isolation", "gpu"},
    {"evidence", "slices", "stages", "conformance", "seed", "requirements"},
    {"checks", "report", "baseline", "waivers", "diff", "testing"},
    {
        "check",
        "init",
        "nodes",
        "session",
        "collected",
        "reporting",
        "options",
        "configured",
        "hookspecs",
        "plugin",
        "cli",
    },
]
PYTEST_SIDE = {"plugin", "nodes", "session", "collected", "reporting", "options", "configured"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def annotations_only(path: Path) -> set[str]:
    """What is imported for type checkers alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for inner in node.body:
                if isinstance(inner, ast.ImportFrom) and inner.module:
                    found |= {f"{inner.module}.{alias.name}" for alias in inner.names}
                elif isinstance(inner, ast.Import):
                    found |= {alias.name for alias in inner.names}
    return found


def level(name: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if name in layer)


def test_every_room_has_its_layer():
    assert {room(path) for path in MODULES} <= set().union(*LAYERS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downward(path):
    own = level(room(path))
    for name in imported(path) - annotations_only(path):
        parts = name.split(".")
        if parts[0] == "pytest_longctx" and len(parts) > 1 and not parts[1].startswith("__"):
            assert parts[1] not in set().union(*LAYERS) or level(parts[1]) <= own, f"{name} lies above"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_engine_imports_no_pytest(path):
    if room(path) not in PYTEST_SIDE:
        assert not {name for name in imported(path) if name.split(".")[0] in ("pytest", "_pytest", "pluggy")}
