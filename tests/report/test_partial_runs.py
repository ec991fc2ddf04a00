"""Runs that lose a check or leave one out: what their report, stages and baseline say."""

from __future__ import annotations

import json

import pytest

from pytest_longctx.contract.load import unreadable
from pytest_longctx.report.record import lost

# Nine gates of one stage and `dataset::rows`; one registered check stands beside them.
GATES = """\
contract: 1
dataset: {path: rows.jsonl, shape: lengths}
curriculum:
  baseline: {name: 4k, target_context_len: 4096, metrics: 4k.json}
  stages: [{name: 8k, target_context_len: 8192, metrics: 8k.json}]
  limits:
    min_long_context_gain: 0.01
    max_short_context_regression: 0.5
    max_failed_runs: 0
    max_peak_memory_gb: 10
    max_cost_per_supervised_token: 10
"""
SLICED = """\
contract: 1
dataset: {path: rows.jsonl, shape: lengths, slices: kind}
lengths: {short_threshold: 5, long_threshold: 9, limits: {max_p50_tokens: 5, max_long_share: 0.6}}
"""
METRICS = {
    "target_context_len": 4096,
    "long_context_score": 0.5,
    "short_context_score": 0.8,
    "supervised_tokens_per_optimizer_step": 1000,
    "loss_finite": True,
    "gradients_finite": True,
    "failed_runs": 0,
    "peak_memory_gb": 9.0,
    "cost_per_supervised_token": 1.0,
}
CONFTEST = """\
import os
from pathlib import Path
from pytest_longctx import Verdict

def my_rule(evidence):
    if Path("kill").exists():
        os._exit(137)  # as the kernel does where memory ends
    return Verdict("passed", "my_rule holds", 0, 0, "offences")

def pytest_longctx_checks():
    return {"my_rule": my_rule}
"""
CONTRACT = "--longctx-contract=a.yaml"
WORKERS = [pytest.param(("-n0",), id="n0"), pytest.param(("-n2", "--dist", "loadfile"), id="n2")]


@pytest.fixture(autouse=True)
def _project(pytester, monkeypatch):
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    files = {"a.yaml": GATES, "conftest.py": CONFTEST, "4k.json": json.dumps(METRICS)}
    files["8k.json"] = json.dumps({**METRICS, "target_context_len": 8192, "long_context_score": 0.6})
    files["rows.jsonl"] = '{"prompt_tokens": 5, "supervised_tokens": 5}\n'
    for name, text in files.items():
        (pytester.path / name).write_text(text)


def report(pytester, name="r.json"):
    return json.loads((pytester.path / name).read_bytes())


def errors(made):
    """(check, error) of all checks of a report that were not judged."""
    records = [record for entry in made["contracts"] for record in entry["checks"]]
    return [(each["check"], each["error"]) for each in records if each["outcome"] == "error"]


class TestLost:
    @pytest.mark.parametrize("restart", [(), ("--max-worker-restart=0",)])
    def test_a_worker_that_dies_leaves_an_error(self, pytester, monkeypatch, restart):
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
        (pytester.path / "kill").write_text("")
        files = ("--longctx-report=r.json", "--longctx-baseline=b.json", "--longctx-update-baseline")
        result = pytester.runpytest_inprocess(CONTRACT, "-n1", *files, *restart)
        assert result.ret == 1
        made = report(pytester)
        assert (made["verdict"], made["complete"]) == ("error", False)
        died = "worker 'gw0' crashed while running 'a.yaml::custom::my_rule'"
        assert errors(made) == [("custom::my_rule", died)]
        assert made["counts"]["passed"] == len(made["contracts"][0]["checks"]) - 1
        result.stdout.fnmatch_lines(
            [
                "*not renewed: 1 check could not be judged, first custom::my_rule",
                "::error file=a.yaml,line=1,title=custom%3A%3Amy_rule::worker 'gw0' crashed*",
                "1 check could not be judged: worker 'gw0' crashed while running*",
            ]
        )
        assert not (pytester.path / "b.json").exists()
        assert (pytester.path / "summary.md").read_text("utf-8").startswith("## ❌ longctx: 1 of ")

    def test_a_worker_that_dies_before_any_check(self, pytester):
        (pytester.path / "conftest.py").write_text(
            "import os\n\n"
            "def pytest_collection_modifyitems(config):\n"
            "    if hasattr(config, 'workerinput'):\n"
            "        os._exit(137)\n"
        )
        files = ("--longctx-report=r.json", "--longctx-baseline=b.json", "--longctx-update-baseline")
        result = pytester.runpytest_inprocess(CONTRACT, "-n1", "--max-worker-restart=0", *files)
        assert result.ret != 0
        made = report(pytester)
        assert (made["verdict"], made["complete"]) == ("error", False)
        assert [error for _, error in errors(made)] == ["the worker that should have checked it died"]
        assert not (pytester.path / "b.json").exists()

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_contract_that_cannot_be_collected(self, pytester, workers):
        sliced = (
            "contract: 1\n"
            "dataset: {path: rows.jsonl, shape: lengths, slices: kind}\n"
            "lengths: {short_threshold: 5, long_threshold: 9, limits: {max_tokens: 99}}\n"
            "waivers: [{check: 'lengths::max_tokens::b', until: 2999-01-01, reason: r}]\n"
        )
        (pytester.path / "s.yaml").write_text(sliced)
        (pytester.path / "rows.jsonl").write_text(
            '{"prompt_tokens": 5, "supervised_tokens": 5, "kind": "a"}\n'
        )
        (pytester.path / "broken.yaml").write_text("contract: 1\ndataset: {path: r.jsonl}\nwindw: 3\nfo: 1\n")
        result = pytester.runpytest_inprocess(
            "a.yaml",
            "s.yaml",
            "broken.yaml",
            "--continue-on-collection-errors",
            "--longctx-report=r.json",
            *workers,
        )
        assert result.ret == 1
        made = report(pytester)
        assert (made["verdict"], made["complete"]) == ("error", False)
        assert {entry["path"]: entry["verdict"] for entry in made["contracts"]} == {
            **{"a.yaml": "passed", "s.yaml": "error", "broken.yaml": "error"}
        }
        assert {check for check, _ in errors(made)} == {"contract::collection"}
        told = sorted(text for _, text in errors(made))
        assert [line.split(" ")[:2] for line in told[0].splitlines()] == [
            *(["broken.yaml:1:1:", "tokenizer:"], ["broken.yaml:3:1:", "windw:"], ["broken.yaml:4:1:", "fo:"])
        ]
        assert "the rows have no slice 'b'" in told[1]

    def test_other_yaml_tests_are_not_ours(self, pytester):
        pytester.makeconftest(
            "import pytest\n"
            "class File(pytest.File):\n"
            "    def collect(self):\n"
            "        raise self.CollectError('theirs')\n"
            "def pytest_collect_file(file_path, parent):\n"
            "    if file_path.name == 'theirs.yaml':\n"
            "        return File.from_parent(parent, path=file_path)\n"
        )
        (pytester.path / "theirs.yaml").write_text("stages: []\n")
        pytester.runpytest_inprocess(
            CONTRACT, "theirs.yaml", "--continue-on-collection-errors", "--longctx-report=r.json"
        )
        made = report(pytester)
        assert (made["verdict"], made["complete"], len(made["contracts"])) == ("passed", True, 1)

    @pytest.mark.parametrize(
        ("identity", "value", "expected"),
        [
            ("curriculum::cost_budget::8k", None, ("curriculum", "cost_budget::8k", None, 5)),
            ("curriculum::cost_budget::9k", "x", ("curriculum", "cost_budget::9k", "x", 1)),
            ("custom::my_rule", None, ("custom", "my_rule", None, 1)),
            ("", None, ("contract", "collection", None, 1)),
        ],
    )
    def test_the_place_of_a_lost_check(self, pytester, identity, value, expected):
        from pytest_longctx.contract import load_contract

        made = lost(load_contract("a.yaml"), identity, value, "died")
        assert (made["section"], made["name"], made["slice"], made["line"]) == expected
        assert (made["outcome"], made["headline"], made["error"]) == ("error", "died", "died")

    def test_of_an_unreadable_contract_only_the_place_is_known(self, pytester):
        contract = unreadable("absent.yaml")
        assert (contract.display, contract.path) == ("absent.yaml", pytester.path / "absent.yaml")
        assert lost(contract, "", None, "no such file")["line"] == 1


UPDATE = ("--longctx-baseline=b.json", "--longctx-update-baseline")


@pytest.mark.parametrize("workers", WORKERS)
class TestLeftOut:
    def test_a_part_of_the_checks_is_no_baseline_and_decides_no_stage(self, pytester, workers):
        part = pytester.runpytest_inprocess(CONTRACT, *UPDATE, "-k", "cost_budget", *workers)
        assert part.ret == 1
        part.stdout.fnmatch_lines(
            [
                "the baseline was not renewed: 10 checks did not run, first dataset::rows; *",
                "stage 8k: not decided (1 of 9 gates ran)",
            ]
        )
        assert not (pytester.path / "b.json").exists()

    def test_no_check_is_no_baseline(self, pytester, workers):
        none = pytester.runpytest_inprocess(CONTRACT, *UPDATE, "-k", "nothing", *workers)
        none.stdout.fnmatch_lines(["the baseline was not renewed: 11 checks did not run*"])
        assert (none.ret, (pytester.path / "b.json").exists()) == (1, False)

    @pytest.mark.parametrize(
        ("contract", "options", "ret"),
        [
            ("a.yaml", ["-k", "cost_budget"], 0),
            ("s.yaml", ["--deselect=s.yaml::lengths::max_p50_tokens::b"], 0),
            ("s.yaml", ["-x"], 1),
            ("s.yaml::lengths::max_p50_tokens", [], 0),
        ],
    )
    def test_what_did_not_run_is_not_gone(self, pytester, workers, contract, options, ret):
        """With -x the first check fails, since the samples became longer."""
        (pytester.path / "s.yaml").write_text(SLICED)
        name, sizes = contract.partition("::")[0], (2, 2)
        self.write_rows(pytester, sizes)
        assert pytester.runpytest_inprocess(name, *UPDATE).ret == 0
        self.write_rows(pytester, (9, 9) if ret else sizes)
        result = pytester.runpytest_inprocess(contract, "--longctx-baseline=b.json", *options, *workers)
        result.stdout.no_fnmatch_line("*is gone*")
        assert "the run has not" not in result.stdout.str()
        assert result.ret in ((1, 2) if ret else (0,))

    def test_a_contract_of_which_no_check_ran_lost_none(self, pytester, workers):
        (pytester.path / "pytest.ini").write_text("[pytest]\nlongctx_contracts = a.yaml\n")
        pytester.makepyfile(test_own="def test_own(): pass")
        assert pytester.runpytest_inprocess(*UPDATE).ret == 0
        result = pytester.runpytest_inprocess("test_own.py", "--longctx-baseline=b.json", *workers)
        result.stdout.no_fnmatch_line("*is gone*")
        assert result.ret == 0

    def test_last_failed_runs_the_check_over_all_rows_and_its_slices(self, pytester, workers):
        (pytester.path / "s.yaml").write_text(SLICED)
        self.write_rows(pytester, (9, 9))
        failed = {"failed": 6}  # each of two limits, over all rows and for both slices
        pytester.runpytest_inprocess("s.yaml", *workers).assert_outcomes(**failed, passed=3)
        pytester.runpytest_inprocess("s.yaml", "--lf", *workers).assert_outcomes(**failed)

    def test_a_slice_that_the_rows_lost_is_gone(self, pytester, workers):
        (pytester.path / "s.yaml").write_text(SLICED)
        self.write_rows(pytester, (2, 2))
        assert pytester.runpytest_inprocess("s.yaml", *UPDATE).ret == 0
        self.write_rows(pytester, (2,))
        result = pytester.runpytest_inprocess("s.yaml", "--longctx-baseline=b.json", *workers)
        assert result.ret == 1
        result.stdout.fnmatch_lines(["s.yaml::lengths::max_p50_tokens::b: the check is gone*"])

    @staticmethod
    def write_rows(pytester, sizes):
        rows = [
            {"prompt_tokens": size, "supervised_tokens": 1, "kind": kind}
            for kind, size in zip("ab", sizes, strict=False)
        ]
        (pytester.path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
