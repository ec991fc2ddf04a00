"""Files, or the Hub, → rows → conversations."""

from __future__ import annotations

from pytest_longctx.dataset.conversation import Conversation, all_messages, is_tool_call, role_offences
from pytest_longctx.dataset.dataset import Dataset, open_dataset
from pytest_longctx.dataset.rows import Row, RowProblem

__all__ = [
    "Conversation",
    "Dataset",
    "Row",
    "RowProblem",
    "all_messages",
    "is_tool_call",
    "open_dataset",
    "role_offences",
]
