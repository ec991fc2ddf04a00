"""The page of contract keys says which values a key takes, and what it is when it is left out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_longctx.contract import json_schema
from pytest_longctx.contract.sources import Shape
from pytest_longctx.curriculum import MetricsError
from pytest_longctx.dataset.shapes import SHAPES
from pytest_longctx.metrics import read_metrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")


def row(section, key):
    """Default and meaning of a key."""
    part = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    (found,) = [line for line in part.splitlines() if line.startswith(f"| `{key}` |")]
    return [cell.strip() for cell in found.strip("|").split(" | ")][1:]


def enumerations(node):
    """The values of all enumerations of a JSON Schema."""
    if isinstance(node, dict):
        yield from node.get("enum", ())
        for value in node.values():
            yield from enumerations(value)
    elif isinstance(node, list):
        for value in node:
            yield from enumerations(value)


def test_every_value_that_a_key_may_have_is_named():
    values = set(enumerations(json_schema()))
    assert {"every_token", "sharegpt", "flash_attention_3", "cuda", "float16", "token_order"} <= values
    assert sorted(value for value in values if f"`{value}`" not in PAGE) == []


@pytest.mark.parametrize(
    ("section", "key", "values"),
    [
        ("supervision", "turns", ("all", "last", "completion", "every_token")),
        ("isolation", "device", ("cpu", "cuda")),
        ("packing", "feed", ("admitted", "all")),
        ("gpu", "dtype", ("float32", "bfloat16", "float16")),
    ],
)
def test_the_values_stand_beside_their_key(section, key, values):
    assert row(section, key)[1].endswith(f"One of {', '.join(f'`{value}`' for value in values)}.")


def test_where_several_may_stand_it_is_a_list():
    assert row("isolation", "attention")[1].endswith(
        "A list of `eager`, `sdpa`, `flex_attention`, `flash_attention_2`, `flash_attention_3`."
    )
    assert " A list of `capacity`, " in row("packing", "invariants")[1]
    assert row("gpu", "model.init")[1].endswith("Always `random`.")


@pytest.mark.parametrize(
    ("section", "key", "default"),
    [
        ("packing", "packer", "`ffd`"),
        ("packing", "collator", "`block_mask`"),
        ("packing", "trainer", ""),
        ("packing", "limits", ""),
        ("isolation", "attention", "`[eager, sdpa]`"),
        ("isolation", "weights", "`false`"),
        ("isolation", "forward", "`{}`"),
        ("gpu", "seed", "`42`"),
        (
            "gpu",
            "model",
            "`{id: Qwen/Qwen2.5-0.5B, revision: 060db6499f32faf8b98477b0a26969ef7d8b9987}`",
        ),
        ("tokenizer", "path", "**required**"),
    ],
)
def test_defaults_are_spelt_as_in_a_contract(section, key, default):
    assert row(section, key)[0] == default


def test_every_shape_has_a_row_with_its_columns():
    assert set(SHAPES) == set(Shape.__args__) - {"auto"}
    for name, shape in SHAPES.items():
        assert f"| `{name}` | `{shape.keys}` |" in PAGE


def test_every_extra_is_described_where_installation_is():
    section = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("optional-dependencies]\n")[2]
    extras = set(re.findall(r"^(\w+) = \[", section.partition("\n[")[0], re.MULTILINE))
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert {"trl", "gpu", "dev"} <= extras == described


def test_the_readme_says_what_its_contract_needs():
    packing = (ROOT / "README.md").read_text(encoding="utf-8").partition("\npacking:")[2].partition("```")[0]
    assert "pytest-longctx[trl]" in packing


def test_the_metrics_of_a_stage_are_those_that_the_gates_read(tmp_path):
    part = PAGE.partition("| metric |")[2].partition("\n\n")[0]
    table = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in part.splitlines()[2:]]
    needed = {cells[0].strip("` "): cells[1:3] for cells in table}
    baseline = {name for name, (before, _) in needed.items() if before == "required"}
    stage = {name for name, (_, after) in needed.items() if after == "required"}
    assert stage | {"target_context_len"} == needed.keys()
    file = tmp_path / "metrics.json"
    values = {name: name.endswith("_finite") or 1 for name in stage}
    for names, before in ((baseline, True), (stage, False)):
        file.write_text(json.dumps({name: values[name] for name in names}))
        assert read_metrics(file, baseline=before).keys() == names
        for name in names:  # each of them is needed
            file.write_text(json.dumps({other: values[other] for other in names - {name}}))
            with pytest.raises(MetricsError, match=name):
                read_metrics(file, baseline=before)
    assert "logging_nan_inf_filter" in PAGE
