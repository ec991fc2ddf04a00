"""Runs that went wrong never pass, and leave nothing half-written behind."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys

import pytest

from pytest_longctx import Verdict, check_contract
from pytest_longctx.checks.check import limit_verdict
from pytest_longctx.extensions import Extensions

REPORT = "--longctx-report=out/report.json"
TOO_SMALL = {"target_context_len": 8, "limits": {"max_overflow_ratio": 0.0}}


def report(pytester):
    return json.loads((pytester.path / "out" / "report.json").read_bytes())


def leftovers(pytester):
    """Files of the run beside its contract, data and reports."""
    found = {path.name for path in (pytester.path / "out").glob("*")} | {
        path.name for path in (pytester.path / "out").glob(".*")
    }
    return found - {"report.json", "ledger.parquet", "page.html"}


def test_a_check_that_raises(pytester, project, not_green):
    project(packing=None)
    pytester.makeconftest(
        "import pytest_longctx.checks.window as window\n"
        "def explode(evidence):\n    raise ZeroDivisionError('boom')\n"
        "window.policy = explode\n"
    )
    not_green(1, "ZeroDivisionError: boom", args=("-k", "policy", REPORT), apart=True)
    assert report(pytester)["verdict"] == "error"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict("ok", "all is fine"), "gave the outcome 'ok', expected one of passed, warned, failed"),
        (Verdict("passed", "x", float("nan"), 1), "measured nan, expected a finite number"),
        (True, "gave bool, expected a Verdict"),
    ],
)
def test_a_registered_check_without_a_verdict(project, verdict, words):
    path = project(packing=None)
    odd = check_contract(path, Extensions(checks={"odd": lambda evidence: verdict})).results[-1]
    assert odd.outcome == "error"
    assert words in odd.error


def test_a_registered_check_that_raises(pytester, project):
    """It is an error that names the function and what it raised, and costs no other check its verdict."""
    path = project(packing=None)

    def lost(evidence):
        return {}["no such key"]

    *others, told = check_contract(path, Extensions(checks={"lost": lost})).results
    line = lost.__code__.co_firstlineno + 1
    said = f"the check 'lost' raised KeyError: 'no such key' (test_run.py:{line})"
    assert [told.outcome, told.error] == ["error", said]
    assert {result.outcome for result in others} == {"passed"}
    pytester.makeconftest(
        "def lost(evidence):\n    return {}['no such key']\n"
        "def pytest_longctx_checks():\n    return {'lost': lost}\n"
    )
    result = pytester.runpytest(f"--longctx-contract={path}", "-k", "lost")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["lost: the check 'lost' raised KeyError: 'no such key' (conftest.py:2)"])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize("name", ["max_overflow_ratio", "min_kept_supervision_ratio"])
def test_a_limit_of_a_value_that_is_no_number(name):
    """Each comparison with NaN is false, so that it would pass."""
    verdict = limit_verdict(name, float("nan"), "ratio", {"limit": 0.5, "warn": None})
    assert (verdict.outcome, verdict.measured) == ("failed", None)
    assert "which is no number" in verdict.headline


def waived(project, days):
    until = dt.datetime.now(dt.timezone.utc).date() + dt.timedelta(days)
    waiver = {"check": "window::max_overflow_ratio", "until": until, "reason": "old shard"}
    return project(window=TOO_SMALL, waivers=[waiver], packing=None)


def test_an_expired_waiver(project, not_green):
    waived(project, -1)
    not_green(
        1, "max_overflow_ratio 100 % > 0 %", "the waiver is over since the end of", args=("-k", "ratio")
    )


def test_a_waiver_excuses_no_missing_evidence(pytester, project, not_green):
    """What cannot be judged did not fail by its value."""
    waived(project, 9)
    (pytester.path / "data" / "chats.jsonl").write_text("")
    not_green(1, "no row became a sample", args=("-k", "max_overflow_ratio"))


def test_a_missing_baseline(project, not_green):
    project(packing=None)
    not_green(4, "--longctx-baseline: there is no file", args=("--longctx-baseline=main.json",))


def test_a_slice_that_vanished(pytester, rows, project, not_green):
    for number, row in enumerate(rows):
        row["source"] = "web" if number < 3 else "books"
    data = {"path": str(pytester.path / "data" / "chats.jsonl"), "id": "uid", "slices": "source"}
    project(dataset=data, packing=None)
    run = ("--longctx-contract=contracts/sft.yaml", "--longctx-baseline=main.json")
    assert pytester.runpytest(*run, "--longctx-update-baseline").ret == 0
    del rows[:3]
    project(dataset=data, packing=None)
    not_green(
        1,
        "window::max_overflow_ratio::web: the check is gone",
        args=("--longctx-baseline=main.json", "-k", "ratio or slices"),
    )
    gone = pytester.runpytest("contracts/sft.yaml::window::max_overflow_ratio::web")
    assert gone.ret == pytest.ExitCode.USAGE_ERROR


def test_everything_deselected(pytester, project, not_green):
    project(packing=None)
    not_green(5, "deselected", args=("-k", "no_such_check", REPORT))
    assert report(pytester)["verdict"] != "passed"


@pytest.mark.parametrize("xdist", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_contract_that_is_not_collected(pytester, project, not_green, xdist):
    """Other tests that pass do not hide that the contract was ignored."""
    project(packing=None)
    pytester.makepyfile("def test_other(): pass")
    ended = not_green(4, "contracts/sft.yaml", "was not collected", args=(".", "--ignore=contracts", *xdist))
    assert xdist or "1 passed" not in ended.text


def test_a_worker_that_died(pytester, project, not_green):
    project(packing=None)
    pytester.makeconftest(
        "import os\nimport pytest_longctx.checks.window as window\n"
        "window.policy = lambda evidence: os._exit(13)\n"
    )
    not_green(1, "crashed", args=("-n2", "-k", "policy", REPORT), apart=True)
    assert report(pytester)["verdict"] != "passed"


def with_a_full_disk(pytester, hook, *args):
    """Run pytest in a process whose files may not grow beyond 100 bytes from a hook on."""
    pytester.makeconftest(
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"def {hook}():\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
    )
    contract = "--longctx-contract=contracts/sft.yaml"
    command = [sys.executable, "-m", "pytest", contract, "-p", "no:cacheprovider", "-s", "-k", "ratio", *args]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "INTERNALERROR" not in ended.stdout + ended.stderr
    return " ".join(ended.stdout.split())


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_full_disk(pytester, project):
    project(packing=None)
    (pytester.path / "out").mkdir()
    (pytester.path / "out" / "report.json").write_text('{"older": 1}')
    text = with_a_full_disk(pytester, "pytest_runtest_teardown", REPORT, "--longctx-html=out/page.html")
    assert "the report was not written to" in text
    assert "the HTML report was not written to" in text
    assert "File too large" in text
    assert report(pytester) == {"older": 1}, "an older report stays whole"
    assert not leftovers(pytester)
    assert not (pytester.path / "out" / "page.html").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_disk_that_is_full_while_samples_are_written(pytester, project):
    project(packing=None)
    ledger = "--longctx-ledger=out/ledger.parquet"
    text = with_a_full_disk(pytester, "pytest_collection_finish", ledger)
    assert "File too large" in text
    assert not leftovers(pytester)
    assert not (pytester.path / "out" / "ledger.parquet").exists()


def test_ctrl_c_in_the_middle(pytester, project, not_green):
    """Nothing is left half-written, the report does not say passed, and the next run is right."""
    project(dataset={"path": "registered:chats"}, packing=None)
    pytester.makeconftest(
        "from pathlib import Path\n"
        "def chats():\n"
        "    for number in range(9):\n"
        "        if number == 5 and Path('stop').exists():\n"
        "            raise KeyboardInterrupt\n"
        "        yield {'messages': [dict(role='user', content='a'), dict(role='assistant', content='b')]}\n"
        "def pytest_longctx_datasets():\n    return {'chats': chats}\n"
    )
    args = (REPORT, "--longctx-ledger=out/ledger.parquet", "-k", "ratio or policy")
    (pytester.path / "stop").touch()
    # In this process pytester would hand the interrupt on.
    ended = not_green(2, "KeyboardInterrupt", args=args, apart=True)
    assert "passed" not in ended.result.parseoutcomes()
    assert report(pytester)["complete"] is False
    assert report(pytester)["verdict"] == "error"
    assert not leftovers(pytester)
    (pytester.path / "stop").unlink()
    again = pytester.runpytest("--longctx-contract=contracts/sft.yaml", *args)
    assert again.ret == 0
    assert report(pytester)["verdict"] == "passed"
    assert report(pytester)["contracts"][0]["evidence"]["ledger"]["samples"] == 9
    assert not leftovers(pytester)
