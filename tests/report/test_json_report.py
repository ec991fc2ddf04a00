from __future__ import annotations

import datetime as dt
import json
import math
from importlib import resources

import pytest

from pytest_longctx import __version__
from pytest_longctx.check import Report, Result
from pytest_longctx.checks import checks_of
from pytest_longctx.report import json_report
from pytest_longctx.report.evidence_summary import summarize
from pytest_longctx.report.json_report import ReportError, build, dump, load_report, write_atomically
from pytest_longctx.report.run import ContractRun, run_of
from pytest_longctx.verdict import Verdict


def schema():
    return json.loads(
        resources.files("pytest_longctx.report").joinpath("report.schema.json").read_text("utf-8")
    )


def faults(report):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    return [(list(error.path), error.message) for error in validator.iter_errors(json.loads(dump(report)))]


def test_the_schema_is_one():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema())


def test_a_report_meets_its_schema(report, record, failure):
    broken = record("packing::capacity", "error", measured=None, limit=None, headroom=None, error="no rows")
    waiver = {"until": "2027-01-31", "reason": "r", "ticket": None, "status": "waived"}
    waived = record("lengths::max_tokens", "waived", waiver=waiver, unit="tokens")
    assert faults(report(record(), failure, broken, waived)) == []
    assert faults(report()) == []


def test_a_report_with_evidence_meets_its_schema(report, evidence, record):
    assert faults(report(record(), evidence=summarize(evidence))) == []


def test_the_schema_refuses_what_it_does_not_know(report, record):
    pytest.importorskip("jsonschema")
    assert faults({**report(record()), "more": 1}) != []
    assert faults(report(record(outcome="fine"))) != []


def test_what_stands_in_a_report(report, record, failure, contract):
    made = report(record("lengths::max_tokens"), failure)
    assert made["report"] == 1
    assert made["generated"] == {"at": "2027-01-31T12:00:00Z", "by": f"pytest-longctx {__version__}"}
    assert made["verdict"] == "failed"
    assert made["counts"] == {"error": 0, "failed": 1, "warned": 0, "waived": 0, "skipped": 0, "passed": 1}
    (entry,) = made["contracts"]
    assert (entry["path"], entry["name"], entry["sha256"]) == ("c.yaml", "sft-4k", contract.sha256)
    assert [check["check"] for check in entry["checks"]] == [
        "lengths::max_tokens",
        "window::max_overflow_ratio",
    ]


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        (["passed", "skipped"], "passed"),
        (["passed", "waived"], "passed"),
        (["passed", "warned"], "warned"),
        (["warned", "failed"], "failed"),
        (["failed", "error"], "error"),
        (["skipped"], "skipped"),
        ([], "skipped"),
    ],
)
def test_verdicts(report, record, outcomes, verdict):
    records = [record(f"window::c{number}", outcome) for number, outcome in enumerate(outcomes)]
    assert report(*records)["verdict"] == verdict


def test_a_run_that_stopped_is_never_passed(report, record):
    assert report(record(), complete=False)["verdict"] == "error"
    assert report(record(outcome="failed"), complete=False)["verdict"] == "failed"


def test_the_moment_is_told_in_utc(contract):
    east = dt.datetime(2027, 1, 31, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert build([ContractRun(contract, [])], east)["generated"]["at"] == "2027-01-30T23:00:00Z"


def test_a_run_without_pytest_makes_the_same_records(contract):
    first, second, *_ = checks_of(contract)
    results = (
        Result(first, Verdict("failed", "rows: 1 of 2", math.nan, 0, "offences", more=-1)),
        Result(second, None, "no such file\nlook there"),
    )
    run = run_of(Report(contract, results))
    assert faults(build([run])) == []
    failed, broken = run.records
    assert (failed["measured"], failed["more"], failed["line"]) == (None, 0, contract.line(*first.key))
    assert (broken["outcome"], broken["headline"]) == ("error", "no such file")
    assert broken["error"] == "no such file\nlook there"


def test_writing_makes_folders_and_leaves_one_file(tmp_path):
    target = tmp_path / "new" / "out.json"
    write_atomically(target, b"1")
    write_atomically(target, b"22")
    assert target.read_bytes() == b"22"
    assert [path.name for path in target.parent.iterdir()] == ["out.json"]


def test_written_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    write_atomically(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    target = tmp_path / "out.json"
    target.write_bytes(b"old")

    def refuse(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(json_report.Path, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "r.json: found no JSON"),
        (b"[1]", "r.json: found JSON that is no report, expected a file of --longctx-report"),
        (b'{"report": true, "contracts": []}', "found JSON that is no report"),
        (b'{"report": 2, "contracts": []}', "found report version 2, expected 1"),
    ],
)
def test_files_that_are_no_report(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.json").write_bytes(content)
    with pytest.raises(ReportError) as caught:
        load_report("r.json")
    assert message in str(caught.value)


def test_a_report_that_is_not_there(tmp_path):
    with pytest.raises(ReportError, match="cannot be read: No such file"):
        load_report(tmp_path / "r.json")


def test_reports_come_back(tmp_path, report, failure):
    made = report(failure)
    write_atomically(tmp_path / "r.json", dump(made))
    assert load_report(tmp_path / "r.json") == made
