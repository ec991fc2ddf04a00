"""The table of the documentation holds what the probe finds."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

from pytest_longctx.isolation import FORMS
from pytest_longctx.isolation.table import BEGIN, END, main, rows, table

DOCUMENT = Path(__file__).parents[2] / "docs" / "isolation.md"


def test_the_form_of_the_table():
    lines = table([("qwen2", "eager", *["isolated"] * len(FORMS))]).splitlines()
    assert lines[0].startswith(f"transformers {transformers.__version__}, torch ")
    assert lines[2].startswith("| architecture | attention | `position_ids` | `padding_free` |")
    assert lines[4] == "| qwen2 | eager" + " | isolated" * 9 + " |"


def test_the_document_is_remade_between_its_marks(tmp_path, monkeypatch):
    file = tmp_path / "page.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr("pytest_longctx.isolation.table.rows", lambda: [("x", "eager")])
    main(str(file))
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\ntransformers ")
    assert text.endswith(f"| x | eager |\n{END}\nafter\n")


@pytest.mark.parametrize(
    ("architecture", "attention"), [("qwen2", "eager"), ("gpt_oss", "eager"), ("lfm2", "sdpa")]
)
def test_rows_of_the_document_are_what_the_probe_finds(architecture, attention):
    text = DOCUMENT.read_text(encoding="utf-8")
    if f"transformers {transformers.__version__}, " not in text:
        pytest.skip(f"the table is for another transformers than {transformers.__version__}")
    (row,) = rows([architecture], [attention])
    assert "| " + " | ".join(row) + " |" in text.splitlines()
