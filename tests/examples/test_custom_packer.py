from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "custom_packer"


def run(*arguments):
    """pytest as a user runs it in the example's folder."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        f"--rootdir={FOLDER}",
    ]
    return subprocess.run([*command, *arguments], cwd=FOLDER, capture_output=True, text=True)


def test_the_good_packer_passes():
    found = run("--longctx-contract=good.yaml")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "good.yaml" in found.stdout


def test_the_wrong_packer_fails_one_check_that_names_the_lost_samples():
    found = run("--longctx-contract=wrong.yaml")
    assert found.returncode == 1, found.stdout + found.stderr
    failed = [line.split()[1] for line in found.stdout.splitlines() if line.startswith("FAILED ")]
    assert failed == ["wrong.yaml::packing::sample_conservation"]
    # 420 samples in shards of 200: the last row of each of the three is lost, the first of them below 200.
    assert re.search(r"^  support-01\d\d +\d+ tokens once +lost$", found.stdout, re.MULTILINE)


def test_the_author_s_own_tests_pass():
    found = run("test_packers.py")
    assert found.returncode == 0, found.stdout + found.stderr
