"""Wheel and sdist as a release would have them, and a user who has nothing but the wheel.

Needs pytest, `build`, `twine` and `check-wheel-contents`, and not the package itself:

    pip install pytest build twine check-wheel-contents
    pytest tests/project/test_package.py

It builds both, and makes an environment for the wheel, unless these name what is there already:
LONGCTX_DIST, a folder with wheel and sdist, and LONGCTX_CORE, an environment with that wheel.
"""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = {"build": "build", "twine": "twine", "check_wheel_contents": "check-wheel-contents"}
ABSENT = [name for module, name in TOOLS.items() if find_spec(module) is None]
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"needs {', '.join(ABSENT)}: pip install them")
FOLDERS = ("pytest_longctx", "tests", "examples", "contracts", "docs", "gpu_suite", ".github", ".ci")


def call(*command, cwd=None, status=0):
    """Run a command; everything that it printed."""
    environ = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GITHUB_ACTIONS")
    }
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def files(folder):
    """Files of the checkout below a folder, ignored ones aside; paths from the root."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("git tells which files belong to the checkout, and there is none")
    listed = call("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder, cwd=ROOT)
    return {name for name in listed.split("\0") if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Wheel and sdist; the wheel is built from the sdist, so that what the one lacks, both lack."""
    folder = Path(os.environ.get("LONGCTX_DIST") or tmp_path_factory.mktemp("dist"))
    if not list(folder.glob("*.whl")):
        call(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel.absolute(), sdist.absolute()


@pytest.fixture(scope="module")
def user(tmp_path_factory, released):
    """A folder with the examples, and an environment with the wheel and nothing else of this checkout."""
    folder = tmp_path_factory.mktemp("user")
    environment = Path(os.environ.get("LONGCTX_CORE") or folder / "venv").absolute()
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    if not environment.exists():
        call(sys.executable, "-m", "venv", environment)
        call(scripts / "python", "-m", "pip", "install", "-qc", ROOT / "constraints.txt", released[0])
    for name in ("contracts", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    return lambda script, *arguments: call(scripts / script, *arguments, cwd=folder)


def test_an_index_takes_them(released):
    call(sys.executable, "-m", "twine", "check", "--strict", *released)


def test_the_wheel_holds_the_package_and_nothing_else(released):
    call(sys.executable, "-m", "check_wheel_contents", released[0])
    with zipfile.ZipFile(released[0]) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(wheel.read(metadata))
    info = metadata.rpartition("/")[0]
    assert {name for name in names if not name.startswith(f"{info}/")} == files("pytest_longctx")
    assert f"{info}/licenses/LICENSE" in names
    assert released[0].name == f"pytest_longctx-{about['Version']}-py3-none-any.whl"
    assert about.get_payload().startswith("# pytest-longctx")


def test_the_core_requires_nothing_heavy(released):
    with zipfile.ZipFile(released[0]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        required = email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist")
    core = " ".join(line for line in required if "extra ==" not in line)
    assert "transformers" in core
    assert [heavy for heavy in ("torch", "trl", "datasets", "ray", "matplotlib") if heavy in core] == []


def test_the_sdist_holds_what_its_own_tests_need(released):
    with tarfile.open(released[1]) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}
    for folder in FOLDERS:
        assert files(folder) - names == set(), folder
    alone = {
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "SECURITY.md",
        "mkdocs.yml",
        "noxfile.py",
    }
    assert alone <= names
    assert {name.partition("/")[0] for name in names} - set(FOLDERS) - alone <= {
        *("PKG-INFO", ".gitignore", ".pre-commit-hooks.yaml", "constraints.txt", "requirements-lowest.txt")
    }


def test_a_user_who_has_the_wheel_alone(user, released):
    printed = user("python", "-c", "import pytest_longctx, sys; print(pytest_longctx.__file__, *sys.modules)")
    assert str(ROOT) not in printed
    origin = (
        "import importlib.metadata as m; print(m.distribution('pytest-longctx').read_text('direct_url.json'))"
    )
    assert json.loads(user("python", "-c", origin))["url"] == released[0].as_uri()
    user("python", "-c", "import importlib.util; assert importlib.util.find_spec('torch') is None")
    printed = user("pytest", "--longctx-contract=contracts/sft.yaml", "-p", "no:cacheprovider")
    assert "plugins: longctx" in printed
    assert " passed" in printed
    template = ("--template", "examples/chatml.jinja")
    data = ("examples/data/tools.jsonl", "--tokenizer", "examples/tokenizer", *template)
    assert "wrote contracts/tools.yaml" in user("longctx", "init", *data)
    assert "max_overflow_ratio" in user("longctx", "schema")
    assert "How to mend it." in user("longctx", "explain", "window::max_overflow_ratio")


def test_a_checker_of_types_finds_the_types(released):
    with zipfile.ZipFile(released[0]) as wheel:
        assert "pytest_longctx/py.typed" in wheel.namelist()
