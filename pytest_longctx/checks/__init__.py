"""The checks: one module per section of the contract."""

from __future__ import annotations

from pytest_longctx.checks.check import Check, checks_of

__all__ = ["Check", "checks_of"]
