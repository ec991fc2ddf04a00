from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import pytest_longctx

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_to_commits(path):
    used = [step["uses"] for job in jobs(path).values() for step in job["steps"] if "uses" in step]
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []


def test_only_the_job_that_publishes_has_an_identity_and_it_runs_no_code_of_the_repository():
    found = jobs(ROOT / ".github" / "workflows" / "release.yml")
    holders = [name for name, job in found.items() if "id-token" in job.get("permissions", {})]
    assert holders == ["publish"]
    assert found["publish"]["environment"] == "pypi"
    assert {"build", "try"} <= set(found["publish"]["needs"])
    assert [step for step in found["publish"]["steps"] if "run" in step or "checkout" in step["uses"]] == []


def test_the_version_is_in_one_place():
    assert re.fullmatch(r"\d+\.\d+\.\d+", pytest_longctx.__version__)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project
    assert f'"{pytest_longctx.__version__}"' not in project
