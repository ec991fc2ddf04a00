"""Tests of what other packages do in their newest releases, left out where an older one is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.version import Version


def since(package: str, least: str) -> pytest.MarkDecorator:
    """Skips where an older release of a package is installed; without it, tests skip by themselves."""
    try:
        found = version(package)
    except PackageNotFoundError:
        found = least
    reason = f"of {package} {least} and newer; {found} is installed and may differ"
    return pytest.mark.skipif(Version(found) < Version(least), reason=reason)
