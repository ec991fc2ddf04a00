from __future__ import annotations

import json

import pytest

from pytest_longctx.report.controller import ReportPaths, write_all
from pytest_longctx.report.json_report import load_report
from pytest_longctx.report.ledger_file import write_part
from pytest_longctx.report.run import ContractRun


@pytest.fixture
def run(contract, record):
    return ContractRun(contract, [record()])


def test_nothing_is_written_unasked(run, tmp_path):
    before = list(tmp_path.iterdir())
    written = write_all([run], ReportPaths(), {})
    assert (written.lines, written.commands, written.failed) == ([], [], False)
    assert list(tmp_path.iterdir()) == before


def test_report_and_page(run, tmp_path):
    paths = ReportPaths(report=tmp_path / "a" / "r.json", html=tmp_path / "r.html")
    written = write_all([run], paths, {})
    assert written.lines == [("", f"report: {paths.report}"), ("", f"HTML report: {paths.html}")]
    assert json.loads(paths.report.read_bytes()) == written.report
    assert paths.html.read_text("utf-8").startswith("<!doctype html>")


def test_a_file_that_cannot_be_written_fails_the_run(run, tmp_path):
    (tmp_path / "file").write_text("")
    written = write_all([run], ReportPaths(report=tmp_path / "file" / "r.json"), {})
    assert written.failed
    assert "the report was not written to" in written.lines[0][1]


def test_the_ledger_of_all_contracts(run, evidence, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    evidence.dataset = evidence.dataset_rows
    target = tmp_path / "l.parquet"
    written = write_all([run], ReportPaths(ledger=target), {}, parts=[write_part(evidence, target)])
    assert written.lines == [("", f"ledger: {target} (4 samples)")]
    assert parquet.read_table(target).num_rows == 4


def test_a_ledger_without_samples_fails_the_run(run, tmp_path):
    assert write_all([run], ReportPaths(ledger=tmp_path / "l.parquet"), {}).failed


def test_under_github(contract, failure, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_WORKSPACE": str(tmp_path),
    }
    written = write_all([ContractRun(contract, [failure])], ReportPaths(), environ)
    assert written.commands[0].startswith("::error file=c.yaml,line=13,")
    assert summary.read_text("utf-8").startswith("before\n## ❌ longctx: 1 of 1 check failed")


def test_a_baseline_is_made_and_held(contract, record, write_contract, tmp_path):
    bound = 'baseline: {max_regression: {"window::max_overflow_ratio": 0.002}}'
    contract = write_contract(bound)
    file = tmp_path / "base.json"
    known = {"c.yaml": ["window::max_overflow_ratio"]}
    made = write_all(
        [ContractRun(contract, [record()])], ReportPaths(baseline=file, update_baseline=True), {}
    )
    assert not made.failed
    assert load_report(file)["contracts"][0]["evidence"]["ledger"] is None
    same = write_all([ContractRun(contract, [record()])], ReportPaths(baseline=file), {}, known)
    assert (same.lines, same.failed) == ([], False)
    worse = write_all(
        [ContractRun(contract, [record(measured=0.013)])], ReportPaths(baseline=file), {}, known
    )
    assert worse.failed
    assert worse.lines == [
        (
            "failed",
            "c.yaml::window::max_overflow_ratio: 1 % → 1.3 %, worse by 0.3 points; "
            "max_regression allows 0.2 points",
        )
    ]


@pytest.mark.parametrize("options", [{"complete": False}, {}])
def test_a_broken_run_is_no_baseline(contract, record, tmp_path, options):
    records = [record()] if options else [record("packing::capacity", "error", error="no rows")]
    paths = ReportPaths(baseline=tmp_path / "base.json", update_baseline=True)
    written = write_all([ContractRun(contract, records)], paths, {}, **options)
    assert written.failed
    assert "the baseline was not renewed" in written.lines[0][1]
    assert not paths.baseline.exists()


def test_faults_of_the_paths(tmp_path):
    absent, broken = tmp_path / "absent.json", tmp_path / "broken.json"
    broken.write_text("{")
    assert ReportPaths(report=tmp_path / "r.json").fault() == ""
    assert ReportPaths(baseline=absent, update_baseline=True).fault() == ""
    assert "there is no file" in ReportPaths(baseline=absent).fault()
    assert "found no JSON" in ReportPaths(baseline=broken).fault()
    assert "needs --longctx-baseline" in ReportPaths(update_baseline=True).fault()
    assert ReportPaths(html=tmp_path).fault() == f"--longctx-html: {tmp_path} is a folder, expected a file"
