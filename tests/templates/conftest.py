from __future__ import annotations

from datetime import datetime

import pytest


@pytest.fixture
def fixed_clock(monkeypatch):
    """Templates that write the date write this one."""
    from transformers.utils import chat_template_utils

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2024, 7, 26)

    monkeypatch.setattr(chat_template_utils, "datetime", Clock)
