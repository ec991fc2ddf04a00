"""The GPU workflow: who may start it, and with what rights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

PATH = Path(__file__).parents[2] / ".github" / "workflows" / "gpu.yml"


@pytest.fixture(scope="module")
def workflow():
    # PyYAML reads the key `on` as true.
    return {str(key): value for key, value in yaml.safe_load(PATH.read_text()).items()}


def test_every_action_is_pinned_to_a_commit():
    uses = re.findall(r"uses: (\S+)(.*)", PATH.read_text())
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)


def test_a_pull_request_needs_the_label_and_this_repository(workflow):
    condition = workflow["jobs"]["measure"]["if"]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in condition
    assert "contains(github.event.pull_request.labels.*.name, 'gpu')" in condition
    assert workflow["True"].keys() == {"push", "pull_request", "schedule"}
    assert "pull_request_target" not in PATH.read_text()


def test_rights_time_and_number_are_bounded(workflow):
    job = workflow["jobs"]["measure"]
    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "read"}
    assert job["timeout-minutes"] <= 30
    assert job["concurrency"] == {"group": "gpu", "cancel-in-progress": False}
    assert job["steps"][0]["with"] == {"persist-credentials": False}


def test_a_missing_gpu_fails_and_the_record_is_kept(workflow):
    steps = workflow["jobs"]["measure"]["steps"]
    assert "--longctx-gpu=real --longctx-require=gpu" in steps[-2]["run"]
    assert steps[-1]["if"] == "always()"
