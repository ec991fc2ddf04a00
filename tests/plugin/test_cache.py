"""A second run finds what the first one measured, and says the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CONTRACT = "--longctx-contract=contracts/sft.yaml"
# When a run was.
CLOCK = "at"


def plain(value):
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key != CLOCK}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def report(pytester):
    """Runs the contract and gives its report."""

    def run(*arguments, status=0, apart=False):
        start = pytester.runpytest_subprocess if apart else pytester.runpytest
        result = start(CONTRACT, "--longctx-report=report.json", *arguments)
        assert result.ret == status, result.stdout.str()
        return json.dumps(plain(json.loads((pytester.path / "report.json").read_text())), indent=1)

    return run


@pytest.fixture(autouse=True)
def at_a_desk(monkeypatch):
    monkeypatch.delenv("CI", raising=False)


def packs(folder):
    return sorted(path.name for path in Path(folder).rglob("*.arrow"))


def test_rows_are_kept_in_pytests_cache_and_found_there(project, pytester, report):
    project()
    first = report()
    kept = packs(pytester.path / ".pytest_cache" / "d" / "longctx")
    assert len(kept) == 1
    assert report() == first
    assert packs(pytester.path / ".pytest_cache" / "d" / "longctx") == kept
    assert report("--longctx-cache=off") == first


def test_a_cache_that_the_checkout_brings_is_not_used_in_ci(project, pytester, report, monkeypatch):
    """It may hold entries of a stranger's making."""
    project()
    monkeypatch.setenv("CI", "true")
    report()
    assert packs(pytester.path) == []
    report("--longctx-cache=kept")
    assert len(packs(pytester.path / "kept")) == 1


def test_another_folder(project, pytester, report):
    project()
    report("--longctx-cache=elsewhere/cache")
    assert len(packs(pytester.path / "elsewhere" / "cache")) == 1
    assert packs(pytester.path / ".pytest_cache") == []


@pytest.mark.parametrize("argument", [("--longctx-cache=off",), ("-p", "no:cacheprovider")])
def test_no_cache(project, pytester, report, argument):
    project()
    report(*argument)
    assert packs(pytester.path) == []


@pytest.mark.parametrize("xdist", [(), ("-n0",), ("-n2", "--dist", "loadfile")])
def test_workers_share_what_they_measure(project, pytester, report, xdist):
    project()
    project("other")
    first = report("contracts/other.yaml", "--longctx-cache=off")
    assert report("contracts/other.yaml", *xdist) == first
    assert len(packs(pytester.path / ".pytest_cache")) == 1


def test_a_folder_that_cannot_be_used_is_told_and_changes_nothing(project, pytester, report):
    project()
    (pytester.path / "file").write_text("")
    assert report("--longctx-cache=file") == report("--longctx-cache=off")
    result = pytester.runpytest(CONTRACT, "--longctx-cache=file")
    result.stdout.fnmatch_lines(["longctx: the cache *file is not used: Not a directory"])


def test_processes_say_what_one_says(project, pytester, report):
    project()
    first = report("--longctx-cache=off")
    pytester.makeconftest("import pytest_longctx.engine.known as known\nknown.FEW = -1\n")
    assert report("--longctx-jobs=2", apart=True) == first
    assert report("--longctx-jobs=auto", apart=True) == first


@pytest.mark.parametrize("jobs", ["0", "-1", "many", "1.5", "100000", ""])
def test_a_number_of_jobs_that_is_none(project, pytester, jobs):
    project()
    result = pytester.runpytest(CONTRACT, f"--longctx-jobs={jobs}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: --longctx-jobs: found '{jobs}', expected auto or a number from 1 to 256"]
    )


@pytest.mark.parametrize("size", ["-1", "much", "nan", "inf"])
def test_a_size_that_is_none(project, pytester, size):
    project()
    result = pytester.runpytest(CONTRACT, "-o", f"longctx_cache_gib={size}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: longctx_cache_gib: found '{size}', expected a number of GiB, 0 or more"]
    )


def test_a_bound_of_nothing_keeps_nothing(project, pytester, report):
    project()
    report("-o", "longctx_cache_gib=0")
    assert packs(pytester.path) == []
