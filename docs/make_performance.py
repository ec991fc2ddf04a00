"""Run the benchmarks and write their table into performance.md: `python docs/make_performance.py`.

`--full` measures at the scale that the page reports (half an hour, 8 GB), else a small one is enough to see
that all works. `--only FILE` runs one file and keeps the other rows of the table. `--print` writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "performance.md"
BENCHMARKS = HERE.parent / "tests" / "benchmarks"
FULL = {
    "LONGCTX_BENCHMARK_ROWS": "20000",
    "LONGCTX_BENCHMARK_SAMPLES": "10000000",
    "LONGCTX_BENCHMARK_TOKENS": "100000000",
    "LONGCTX_BENCHMARK_GROWTH": "1000000",
}
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
HEAD = "| what | measured | to reach | reached | scale | machine |\n|---|---|---|---|---|---|"
NUMBER = re.compile(r"[\d.]+")


def main(argv: list[str] | None = None) -> int:
    """Run, print the table, and write it; the exit status is that of pytest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="measure at the scale that the page reports")
    parser.add_argument("--only", metavar="FILE", help="run one file of tests/benchmarks")
    parser.add_argument("--json", metavar="FILE", help="take what was measured before, and run nothing")
    parser.add_argument("--print", action="store_true", help="write no page")
    arguments = parser.parse_args(argv)
    if arguments.json:
        status, found = 0, json.loads(Path(arguments.json).read_text(encoding="utf-8"))
    else:
        status, found = run(BENCHMARKS / (arguments.only or ""), full=arguments.full)
    rows = rows_of(found)
    print("\n".join([HEAD, *rows.values()]))
    if not arguments.print:
        old = PAGE.read_text(encoding="utf-8")
        kept = rows_in(old) if arguments.only else {}
        PAGE.write_text(with_rows(old, {**kept, **rows}), encoding="utf-8")
    return status


def run(path: Path, *, full: bool) -> tuple[int, dict[str, Any]]:
    """pytest's exit status, and what pytest-benchmark wrote."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "measured.json")
        command = [sys.executable, "-m", "pytest", str(path), "-q", f"--benchmark-json={file}"]
        environment = {**os.environ, **(FULL if full else {})}
        done = subprocess.run(command, cwd=HERE.parent, env=environment, check=False)
        found = json.loads(file.read_text(encoding="utf-8") or "{}") if file.exists() else {}
    return done.returncode, found


def rows_of(found: dict[str, Any]) -> dict[str, str]:
    """The lines of the table by what they measure; benchmarks that record no ratio have none."""
    on = machine(found.get("machine_info", {}))
    told = [benchmark["extra_info"] for benchmark in found.get("benchmarks", [])]
    return {info["what"]: line(info, on) for info in told if {"what", "ratio", "reach"} <= info.keys()}


def line(info: dict[str, Any], on: str) -> str:
    """One row of the table."""
    measured = f"{float(info['ratio']):.3g}{info.get('unit', '')}"
    reached = "yes" if is_reached(float(info["ratio"]), info["reach"]) else "**no**"
    cells = (info["what"], measured, info["reach"], reached, info.get("scale", ""), on)
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"


def is_reached(ratio: float, reach: str) -> bool:
    """Whether a number meets a wish such as "≤ 1.2" or "≥ 4".

    Raises:
        ValueError: the wish has no direction, or no number.
    """
    number = NUMBER.search(reach.replace(",", ""))
    if number is None or reach[:1] not in ("≤", "≥"):
        raise ValueError(f"reach is {reach!r}; write it as '≤ 1.2' or '≥ 4'")
    return ratio <= float(number.group()) if reach[0] == "≤" else ratio >= float(number.group())


def machine(info: dict[str, Any]) -> str:
    """Processor, cores and Python in a few words."""
    cpu = info.get("cpu", {})
    name = cpu.get("brand_raw") or info.get("machine") or platform.machine()
    cores = cpu.get("count") or os.cpu_count()
    return f"{name}, {cores} cores, Python {info.get('python_version', platform.python_version())}"


def rows_in(page: str) -> dict[str, str]:
    """The rows that the page has, by what they measure."""
    inside = page.partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in inside.splitlines() if line.startswith("| ")][1:]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def with_rows(page: str, rows: dict[str, str]) -> str:
    """The page with these rows between its marks.

    Raises:
        ValueError: it has no marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no {BEGIN} … {END}")
    return f"{before}{begin}\n" + "\n".join([HEAD, *rows.values()]) + f"\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
