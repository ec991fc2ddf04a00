"""Ledger entries of rows that were measured before, kept on disk by the rows' content."""

from __future__ import annotations

from pytest_longctx.cache.folder import CacheFolder
from pytest_longctx.cache.key import row_key, settings_key
from pytest_longctx.cache.store import Store

__all__ = ["CacheFolder", "Store", "row_key", "settings_key"]
