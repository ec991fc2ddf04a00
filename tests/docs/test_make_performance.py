"""The table of docs/performance.md, from what pytest-benchmark writes."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def script(tmp_path, monkeypatch):
    spec = spec_from_file_location("make_performance", DOCS / "make_performance.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    page = tmp_path / "performance.md"
    page.write_text(f"above\n{module.BEGIN}\n{module.END}\nbelow\n", encoding="utf-8")
    monkeypatch.setattr(module, "PAGE", page)
    return module


def measured(tmp_path, *infos):
    file = tmp_path / "measured.json"
    machine = {"cpu": {"brand_raw": "A chip", "count": 2}, "python_version": "3.11.7"}
    benchmarks = [{"extra_info": info} for info in infos]
    file.write_text(json.dumps({"machine_info": machine, "benchmarks": benchmarks}), encoding="utf-8")
    return str(file)


ON = "A chip, 2 cores, Python 3.11.7"


def test_a_row_for_each_benchmark_that_records_a_ratio(script, tmp_path, capsys):
    one = {"what": "one", "ratio": 1.23456, "reach": "≤ 1.2", "scale": "9 | 10 rows"}
    two = {"what": "two", "ratio": 4.0, "reach": "≥ 4"}
    three = {"what": "three", "ratio": -2.5, "reach": "≤ 10 ms", "unit": " ms"}
    file = measured(tmp_path, one, {"samples": 5}, two, three)
    assert script.main(["--json", file]) == 0
    assert script.PAGE.read_text(encoding="utf-8").splitlines() == [
        "above",
        script.BEGIN,
        "| what | measured | to reach | reached | scale | machine |",
        "|---|---|---|---|---|---|",
        f"| one | 1.23 | ≤ 1.2 | **no** | 9 / 10 rows | {ON} |",
        f"| two | 4 | ≥ 4 | yes |  | {ON} |",
        f"| three | -2.5 ms | ≤ 10 ms | yes |  | {ON} |",
        script.END,
        "below",
    ]
    assert "| two | 4 |" in capsys.readouterr().out


def test_one_file_keeps_the_rows_of_the_others(script, tmp_path):
    old = {"what": "old", "ratio": 1, "reach": "≤ 2"}
    changed = {"what": "changed", "ratio": 1, "reach": "≤ 2"}
    script.main(["--json", measured(tmp_path, old, changed)])
    new = measured(tmp_path, {**changed, "ratio": 3})
    script.main(["--json", new, "--only", "test_some.py"])
    rows = script.rows_in(script.PAGE.read_text(encoding="utf-8"))
    assert [row.split(" | ")[1:4] for row in rows.values()] == [["1", "≤ 2", "yes"], ["3", "≤ 2", "**no**"]]
    script.main(["--json", new])
    assert list(script.rows_in(script.PAGE.read_text(encoding="utf-8"))) == ["changed"]


def test_printing_writes_nothing(script, tmp_path):
    before = script.PAGE.read_text(encoding="utf-8")
    script.main(["--print", "--json", measured(tmp_path, {"what": "one", "ratio": 1, "reach": "≤ 2"})])
    assert script.PAGE.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("ratio", "reach", "reached"),
    [
        (1.2, "≤ 1.2", True),
        (1.21, "≤ 1.2", False),
        (4, "≥ 4 ×", True),
        (3.9, "≥ 4", False),
        (999, "≤ 1,000", True),
        (1001, "≤ 1,000", False),
    ],
)
def test_what_is_reached(script, ratio, reach, reached):
    assert script.is_reached(ratio, reach) is reached


@pytest.mark.parametrize("reach", ["", "1.2", "≤", "< 3"])
def test_a_wish_that_cannot_be_read(script, reach):
    with pytest.raises(ValueError, match="write it as"):
        script.is_reached(1, reach)


def test_the_page_has_a_place_for_the_table(script):
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert script.rows_in(script.with_rows(page, {"x": "| x | 1 |"})) == {"x": "| x | 1 |"}
    with pytest.raises(ValueError, match="has no"):
        script.with_rows("a page without marks", {})
