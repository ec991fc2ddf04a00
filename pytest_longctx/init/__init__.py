"""`longctx init`: measure a dataset, and propose a contract that it passes, with room to spare."""

from __future__ import annotations

from pytest_longctx.init.files import SCHEMA_NAME, Written, refuse_existing, write
from pytest_longctx.init.proposal import Proposal, propose
from pytest_longctx.init.source import Source
from pytest_longctx.init.text import report_lines

__all__ = [
    "SCHEMA_NAME",
    "Proposal",
    "Source",
    "Written",
    "propose",
    "refuse_existing",
    "report_lines",
    "write",
]
