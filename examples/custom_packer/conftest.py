"""Registers the packers, so that contracts in this folder can name them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from packers import next_fit, next_fit_in_shards

if TYPE_CHECKING:
    from collections.abc import Callable


def pytest_longctx_packers() -> dict[str, Callable[..., Any]]:
    """Packers by name."""
    return {"next_fit": next_fit, "next_fit_in_shards": next_fit_in_shards}
