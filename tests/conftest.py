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
    """Import what registers types of its own with Arrow: that can be done only once a process."""
    if find_spec("datasets") is not None:
        importlib.import_module("datasets")


@pytest.fixture
def pytester(lasting_imports: None, pytester: pytest.Pytester) -> pytest.Pytester:
    """A pytester that does not drop those imports, as it drops all that a run inside it imports."""
    return pytester
