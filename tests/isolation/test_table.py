"""The table of the documentation holds what the probe finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import transformers

from pytest_longctx.isolation import FORMS
from pytest_longctx.isolation.table import BEGIN, END, main, rows, table
from pytest_longctx.packing.collators import build_collator
from pytest_longctx.packing.names import COLLATORS
from tests.releases import since

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


def collators_of_the_document():
    """Collator → form, attentions that isolate, attentions that leak."""
    text = DOCUMENT.read_text(encoding="utf-8").partition("| collator |")[2].partition("\n\n")[0]
    for line in text.splitlines()[2:]:
        name, form, *attentions = (cell.strip() for cell in line.strip("|").split("|"))
        words = [{word.strip() for word in cell.split(",") if word} for cell in attentions]
        yield name.split("`")[1], form.strip("`"), *words


def test_every_shipped_collator_is_described():
    assert [name for name, *_ in collators_of_the_document()] == list(COLLATORS)
    assert not set(COLLATORS) & set(FORMS)  # no word for two things


@since("trl", "1.16")
@pytest.mark.parametrize(("name", "form"), [row[:2] for row in collators_of_the_document()])
def test_a_collator_makes_the_form_that_the_document_says(name, form):
    if COLLATORS[name]:
        pytest.importorskip(COLLATORS[name])
    samples = [np.array([5, 6, 7]), np.array([8]), np.array([9, 10])]
    row = {"input_ids": np.concatenate(samples), "labels": np.concatenate(samples), "seq_lengths": [3, 1, 2]}
    made, wanted = build_collator(name, {}, 0)([row]), FORMS[form](samples)
    assert made.keys() == wanted.keys()
    for key, value in wanted.items():
        assert np.array_equal(made[key], value), key


@pytest.mark.parametrize(("form", "isolated", "leaking"), [row[1:] for row in collators_of_the_document()])
def test_where_a_collator_isolates_is_what_the_large_table_says(form, isolated, leaking):
    text = DOCUMENT.read_text(encoding="utf-8")
    head, *cells = (
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith(("| architecture |", "| qwen2 |"))
    )
    found = {row[1]: row[head.index(form)] for row in cells}
    assert {name for name, word in found.items() if word == "isolated"} == isolated
    assert {name for name, word in found.items() if word == "**LEAKS**"} == leaking


@pytest.mark.parametrize(
    ("architecture", "attention"), [("qwen2", "eager"), ("gpt_oss", "eager"), ("lfm2", "sdpa")]
)
def test_rows_of_the_document_are_what_the_probe_finds(architecture, attention):
    text = DOCUMENT.read_text(encoding="utf-8")
    if f"transformers {transformers.__version__}, " not in text:
        pytest.skip(f"the table is for another transformers than {transformers.__version__}")
    (row,) = rows([architecture], [attention])
    assert "| " + " | ".join(row) + " |" in text.splitlines()
