from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_longctx.requirements import LEAST

ROOT = Path(__file__).parents[2]
NOT_TESTED_WITH = {"mypy", "ruff", "types-pyyaml", "ray"}


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pairs = (line.split(";")[0].split("==") for line in lines if line and not line.startswith("#"))
    return {package.lower(): version.strip() for package, version in pairs}


def lower_bounds() -> dict[str, str]:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib needs Python 3.11")
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    lines = [line for group in groups for line in group if not line.startswith("pytest-longctx[")]
    return {name.lower(): bound for name, bound in (line.split(">=") for line in lines)}


def test_every_dependency_has_one_lower_bound() -> None:
    assert {name for name, bound in lower_bounds().items() if not bound} == set()


def test_lowest_requirements_are_the_lower_bounds() -> None:
    expected = {name: bound for name, bound in lower_bounds().items() if name not in NOT_TESTED_WITH}
    assert pins("requirements-lowest.txt") == expected


def test_what_is_refused_as_too_old_is_below_the_lower_bounds() -> None:
    assert {name: lower_bounds()[name] for name in LEAST} == LEAST


def test_constraints_name_every_dependency() -> None:
    pinned = {name.replace("_", "-") for name in pins("constraints.txt")}
    assert {name.replace("_", "-") for name in lower_bounds()} <= pinned


def test_torch_is_pinned_without_a_local_part() -> None:
    assert pins("constraints.txt")["torch"] == "2.13.0"
