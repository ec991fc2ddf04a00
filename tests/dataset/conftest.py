from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_longctx.dataset import open_dataset


def section(**keys):
    """A dataset section without a contract file: only what the loader reads."""
    absent = dict.fromkeys(("id", "slices", "revision", "split", "config"))
    return SimpleNamespace(**{"path": "*", "shape": "auto", "columns": {}, **absent, **keys})


@pytest.fixture
def opened(tmp_path):
    """Open a dataset in tmp_path from the keys of its section."""
    return lambda **keys: open_dataset(section(**keys), SimpleNamespace(resolve=lambda path: tmp_path / path))


@pytest.fixture
def write(tmp_path):
    """Write a file in tmp_path, with the folders above it."""

    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file
