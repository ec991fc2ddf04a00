"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of example data, tokenizer and templates."""
    return REPOSITORY / "examples"


@pytest.fixture(scope="session")
def lasting_imports() -> None:
    """Import what can be imported only once a process: extensions, and what registers types with Arrow."""
    for module in ("torch", "datasets"):
        if find_spec(module) is not None:
            importlib.import_module(module)


@pytest.fixture
def pytester(lasting_imports: None, pytester: pytest.Pytester) -> pytest.Pytester:
    """A pytester that does not drop those imports, as it drops all that a run inside it imports."""
    return pytester
