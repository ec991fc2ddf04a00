"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of example data, tokenizer and templates."""
    return REPOSITORY / "examples"
