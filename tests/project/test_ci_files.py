"""What users take into their CI: the composite action with its scripts, examples, hooks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pytest_longctx.plugin import pytest_addoption

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "longctx"
WORKFLOW = ROOT / "examples" / "github" / "data-contract.yml"
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path):
    data = read(path)
    if "runs" in data:
        return data["runs"]["steps"]
    return [step for job in data["jobs"].values() for step in job["steps"]]


def test_the_action_has_the_inputs_and_outputs_that_are_documented():
    action = read(ACTION / "action.yml")
    assert {"contract", "extras", "report", "baseline"} <= action["inputs"].keys()
    assert action["outputs"].keys() == {"verdict", "report"}
    assert all(entry["description"] for entry in (action["inputs"] | action["outputs"]).values())


@pytest.mark.parametrize("path", [ACTION / "action.yml", WORKFLOW], ids=lambda path: path.name)
def test_actions_are_pinned_to_commits(path):
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []


@pytest.mark.parametrize("path", [ACTION / "action.yml", WORKFLOW], ids=lambda path: path.name)
def test_scripts_take_inputs_from_the_environment_only(path):
    assert [step["run"] for step in steps(path) if "${{" in step.get("run", "")] == []


def test_the_example_gives_inputs_that_the_action_has():
    (given,) = [step["with"] for step in steps(WORKFLOW) if "longctx" in step.get("uses", "")]
    inputs = read(ACTION / "action.yml")["inputs"]
    assert given.keys() <= inputs.keys()
    assert {name for name, entry in inputs.items() if entry.get("required")} <= given.keys()


def test_files_that_the_example_names_are_there_or_are_told_how_to_make():
    (given,) = [step["with"] for step in steps(WORKFLOW) if "longctx" in step.get("uses", "")]
    assert "baseline" not in given
    assert (ROOT / given["contract"]).is_file()
    text = WORKFLOW.read_text(encoding="utf-8")
    assert "# baseline: " in text
    assert "--longctx-update-baseline" in text


def test_nothing_of_a_checkout_is_kept_but_downloads():
    # In CI the package believes no rows below the checkout, which a pull request may bring along.
    (cache,) = [step for step in steps(ACTION / "action.yml") if "actions/cache@" in step.get("uses", "")]
    assert cache["with"]["path"] == "${{ steps.place.outputs.pip }}"
    job = read(ROOT / "examples" / "gitlab" / ".gitlab-ci.yml")["data-contract"]
    assert job["cache"]["paths"] == [".cache/pip"]


@needs_bash
def test_a_cache_key_tells_extras_apart_and_has_no_comma(tmp_path):
    # A comma in the key is an error of actions/cache.
    (place,) = [step for step in steps(ACTION / "action.yml") if step.get("id") == "place"]
    keys = set()
    for extras in ("report", "report, trl"):
        given = {"GITHUB_OUTPUT": str(tmp_path / extras), "EXTRAS": extras, "PACKAGE": "p==1,<2"}
        python = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        subprocess.run(["bash", "-c", place["run"]], env={**os.environ, **given, "PATH": python}, check=True)
        keys |= set(re.findall("^key=([0-9a-z.-]+)$", (tmp_path / extras).read_text(), re.MULTILINE))
    assert len(keys) == 2


def test_options_in_scripts_and_examples_exist():
    class Options:
        def __init__(self):
            self.names = set()

        def getgroup(self, *names):
            return self

        def addoption(self, *names, **settings):
            self.names |= {name for name in names if name.startswith("--")}

        def addini(self, *names, **settings):
            pass

    options = Options()
    pytest_addoption(options)
    files = [ACTION / "check.sh", ROOT / "examples" / "gitlab" / ".gitlab-ci.yml"]
    used = {
        name for file in files for name in re.findall(r"--longctx-[a-z-]+", file.read_text(encoding="utf-8"))
    }
    assert {"--longctx-contract", "--longctx-report"} <= used <= options.names


def test_the_pre_commit_hook():
    (hook,) = read(ROOT / ".pre-commit-hooks.yaml")
    assert (hook["id"], hook["entry"], hook["language"]) == ("longctx-check", "longctx check", "python")
    assert re.search(hook["files"], "contracts/sft.yaml")
    assert not re.search(hook["files"], "contracts/baseline.json")
    (repo,) = read(ROOT / "examples" / "github" / "pre-commit-config.yaml")["repos"]
    assert [each["id"] for each in repo["hooks"]] == [hook["id"]]


@pytest.fixture
def step(tmp_path):
    """Run a script of the action beside a `python` that writes its arguments down and makes a report."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "if sys.argv[1:2] == ['-c']:\n"
        "    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
        "json.dump(sys.argv[1:], open('arguments.json', 'w'))\n"
        "if os.environ.get('MADE'):\n"
        "    json.dump({'verdict': os.environ['MADE']}, open(os.environ['REPORT'], 'w'))\n"
        "sys.exit(int(os.environ.get('STATUS', 0)))\n"
    )
    python.chmod(0o755)

    def run(script, **environ):
        (tmp_path / "output").write_text("")
        environ = {
            "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            **environ,
        }
        command = ["bash", str(ACTION / script)]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        called = tmp_path / "arguments.json"
        arguments = json.loads(called.read_text()) if called.exists() else []
        return (
            done,
            arguments,
            dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines()),
        )

    return run


INPUTS = {"CONTRACT": "contracts/sft.yaml\n", "REPORT": "r.json", "HTML": "", "BASELINE": "", "ARGUMENTS": ""}


@needs_bash
class TestCheck:
    def test_contracts_and_arguments_one_a_line(self, step):
        given = {
            **INPUTS,
            "CONTRACT": "  a b.yaml \n\n$(touch bad).yaml\n",
            "HTML": "r.html",
            "BASELINE": "base.json",
            "ARGUMENTS": "-k\nnot slow\n",
        }
        done, arguments, output = step("check.sh", **given, MADE="passed")
        assert done.returncode == 0, done.stderr
        assert arguments == [
            *["-m", "pytest", "--longctx-report=r.json"],
            *["--longctx-contract=a b.yaml", "--longctx-contract=$(touch bad).yaml"],
            *["--longctx-html=r.html", "--longctx-baseline=base.json", "-k", "not slow"],
        ]
        assert output == {"report": "r.json", "verdict": "passed"}

    @pytest.mark.parametrize(
        ("made", "status", "verdict"),
        [
            ("failed", "1", "failed"),
            ("warned", "0", "warned"),
            ("passed", "1", "failed"),  # an ordinary test, or the baseline
            ("", "4", "error"),
        ],
    )
    def test_verdict_and_status(self, step, tmp_path, made, status, verdict):
        (tmp_path / "r.json").write_text('{"verdict": "passed"}')  # of an earlier run
        done, _, output = step("check.sh", **INPUTS, MADE=made, STATUS=status)
        assert done.returncode == int(status)
        assert output["verdict"] == verdict
        assert ("report" in output) == bool(made)

    def test_no_contract_is_an_error(self, step):
        done, arguments, _ = step("check.sh", **{**INPUTS, "CONTRACT": " \n"})
        assert (done.returncode, arguments) == (2, [])


@needs_bash
@pytest.mark.parametrize(
    ("package", "extras", "installed"),
    [
        ("pytest-longctx", "report", "pytest-longctx[report]"),
        ("pytest-longctx==1.2", "report, trl", "pytest-longctx[report,trl]==1.2"),
        ("pytest-longctx>=1,<2", "", "pytest-longctx>=1,<2"),
        (".", "report", ".[report]"),
    ],
)
def test_what_is_installed(step, package, extras, installed):
    done, arguments, _ = step("install.sh", PACKAGE=package, EXTRAS=extras)
    assert done.returncode == 0, done.stderr
    assert arguments[-1] == installed
