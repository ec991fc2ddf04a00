from __future__ import annotations

import json

import pytest

from pytest_longctx.gpu import check_names, demanded, lines, measure
from pytest_longctx.gpu.baseline import compare_with
from pytest_longctx.gpu.found import Found
from pytest_longctx.gpu.record import Failure, LengthMeasurement, Peak, Steps
from pytest_longctx.gpu.verdicts import conclude, judge
from pytest_longctx.gpu.workload import workload_of
from pytest_longctx.verdict import Verdict


def point(length, seconds, size=100):
    return LengthMeasurement(
        length, 1, Steps.of([seconds], [1.0], [1.0]), seconds / length, Peak(size, size), ()
    )


@pytest.fixture
def found(terms):
    def found(*points, baseline=None, failure=None, **limits):
        section = terms(limits=limits)
        return Found(section, "real", workload_of(section, "real"), points, None, baseline, failure)

    return found


def test_names_are_those_of_the_contract(terms):
    five = ["length_curve", "finite", "memory_trend", "packing_boundaries", "same_supervision"]
    assert check_names(terms()) == five
    assert check_names(terms(limits={"max_step_time_ratio": 1.1, "max_peak_memory_gb": 1.0})) == [
        *five,
        "max_peak_memory_gb",
        "max_step_time_ratio",
    ]


def test_a_peak_beyond_the_limit_is_known_from_a_run_that_failed(found):
    failure = Failure("length_curve", "out_of_memory", "CUDA out of memory", "8 tokens")
    over = judge(found(point(4, 1.0, 3 * 10**9), failure=failure, max_peak_memory_gb=2.0))[
        "max_peak_memory_gb"
    ]
    assert (over.outcome, over.measured) == ("failed", 3.0)
    assert over.headline == "max_peak_memory_gb 3 GB > 2 GB  (length 4)"
    under = judge(found(point(4, 1.0, 10**9), failure=failure, max_peak_memory_gb=2.0))["max_peak_memory_gb"]
    assert under.outcome == "failed"
    assert under.headline.startswith("max_peak_memory_gb not measured: out of memory")


def test_memory_that_falls_by_exactly_the_tolerance(terms):
    # From 20 bytes to 17: by 15 %.
    section = terms(memory_trend_tolerance=0.15)
    points = (point(4, 1.0, 20), point(8, 1.0, 17))
    found = Found(section, "real", workload_of(section, "real"), points, None, None, None)
    assert judge(found)["memory_trend"].outcome == "passed"


def test_every_first_line_fits(found):
    failure = Failure("length_curve", "out_of_memory", "x" * 200, "1048576 tokens")
    for verdict in judge(found(failure=failure, max_peak_memory_gb=2.0, min_packing_speedup=1.0)).values():
        assert len(verdict.headline) < 80


PASSED, FAILED = Verdict("passed", "ok"), Verdict("failed", "no")
BROKEN = Failure("packing", "error", "boom")


@pytest.mark.parametrize(
    ("mode", "checks", "failure", "expected"),
    [
        ("real", {"finite": PASSED}, None, ("measurement", "accept_mechanism")),
        ("real", {"finite": PASSED, "min_packing_speedup": FAILED}, None, ("measurement", "tune")),
        (
            "real",
            {"finite": FAILED, "min_packing_speedup": FAILED},
            None,
            ("measurement", "reject_until_fixed"),
        ),
        ("real", {"finite": PASSED}, BROKEN, ("measurement", "reject_until_fixed")),
        ("real", {"finite": FAILED}, Failure("device", "unavailable", "no"), ("none", "not_measured")),
        ("cpu", {"finite": PASSED}, None, ("mechanism", "ready_to_measure")),
        ("cpu", {"finite": FAILED}, None, ("mechanism", "reject_until_fixed")),
        ("dry_run", {}, None, ("plan", "ready_to_measure")),
    ],
)
def test_decisions(mode, checks, failure, expected):
    assert conclude(mode, checks, failure) == expected


def test_what_is_required_is_never_skipped(terms):
    record = measure(terms(), "dry_run")
    assert {v.outcome for v in record.checks.values()} == {"skipped"}
    required = demanded(record.checks, "dry_run")
    assert {v.outcome for v in required.values()} == {"failed"}
    assert required["finite"].headline == "finite is required, and this is a dry_run run"


def test_a_required_gpu_is_no_cpu():
    checks = {"finite": PASSED, "memory_trend": FAILED}
    assert {v.outcome for v in demanded(checks, "cpu").values()} == {"failed"}
    assert demanded(checks, "real") == checks
    skipped = {"max_step_time_ratio": Verdict("skipped", "no baseline", advice="name one")}
    required = demanded(skipped, "real")["max_step_time_ratio"]
    assert (required.outcome, required.context, required.advice) == ("failed", ("no baseline",), "name one")


# Baselines


@pytest.fixture
def baseline(tmp_path, found, device):
    """A baseline record, 10 s at 4 tokens and 20 s at 8; keys may be changed."""

    def baseline(**changes):
        workload = found().workload
        record = {
            "schema_version": 1,
            "mode": "real",
            "label": "main",
            "failure": None,
            "hardware": device.to_json(),
            "workload": workload.to_json(),
            "versions": {"torch": "2.9"},
            "measurements": [
                {"length": length, "steps": {"median_seconds": seconds}}
                for length, seconds in ((4, 10), (8, 20))
            ],
        }
        path = tmp_path / "main.json"
        path.write_text(json.dumps(record | changes))
        return path

    return baseline


@pytest.fixture
def judged(found, device):
    def judged(path, limit=1.15, seconds=(11.0, 22.0)):
        points = [point(length, value) for length, value in zip((4, 8), seconds, strict=True)]
        compared = compare_with(path, device, found().workload, points, {"torch": "2.10"})
        return judge(found(*points, baseline=compared, max_step_time_ratio=limit))["max_step_time_ratio"]

    return judged


def test_the_slowest_length_counts(baseline, judged):
    passed = judged(baseline(), seconds=(11.0, 22.8))
    assert (passed.outcome, passed.measured) == ("passed", pytest.approx(1.14))
    assert "torch 2.9 → 2.10" in passed.context
    failed = judged(baseline(), seconds=(12.0, 22.0))
    assert (failed.outcome, failed.measured) == ("failed", pytest.approx(1.2))
    assert failed.headline == "max_step_time_ratio 1.2 × > 1.15 ×  (4 tokens, main)"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mode": "cpu"}, "the baseline is a cpu run"),
        ({"failure": {"stage": "packing"}}, "the baseline's run failed in stage packing"),
        ({"hardware": {"fingerprint": "0", "name": "Other"}}, "other hardware: the baseline ran on Other"),
        ({"workload": {"fingerprint": "0", "seed": 1}}, "another workload"),
    ],
)
def test_what_is_not_comparable_is_said(baseline, judged, changes, reason):
    verdict = judged(baseline(**changes))
    assert verdict.outcome == "skipped"
    assert reason in verdict.context[0]


def test_a_workload_that_differs_is_told_by_its_keys(baseline, judged, found):
    other = found().workload.to_json() | {"fingerprint": "0", "seed": 7}
    assert judged(baseline(workload=other)).context[0] == "the baseline ran another workload: seed differs"


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 2},
        {"measurements": [{}]},
        {"measurements": [[4, 10], [8, 20]]},
        {"hardware": None},
        {"versions": ["torch"]},
    ],
)
def test_a_broken_baseline_fails(baseline, judged, changes):
    assert judged(baseline(**changes)).outcome == "failed"


def test_a_baseline_without_a_label_fails(baseline, judged):
    path = baseline()
    record = json.loads(path.read_text())
    del record["label"]
    path.write_text(json.dumps(record))
    verdict = judged(path)
    assert verdict.outcome == "failed"
    assert "main.json: no complete record: KeyError('label')" in str(verdict)


@pytest.mark.parametrize(
    ("points", "told"),
    [
        (((4, 0), (8, 20)), "length 4 stands there with a median of 0 seconds, expected once and above 0"),
        (((4, 10), (8, -1)), "length 8 stands there with a median of -1 seconds"),
        (((4, True), (8, 20)), "length 4 stands there with a median of True seconds"),
        (((4, 10), (8, 20), (4, 1000)), "length 4 stands there twice, expected once and above 0"),
    ],
)
def test_no_step_takes_no_time(baseline, judged, points, told):
    path = baseline(
        measurements=[{"length": length, "steps": {"median_seconds": value}} for length, value in points]
    )
    verdict = judged(path)
    assert verdict.outcome == "failed"
    assert told in str(verdict)


def test_a_missing_baseline(tmp_path, judged, found):
    assert judged(tmp_path / "none.json").outcome == "failed"
    unnamed = judge(found(point(4, 1.0), point(8, 1.0), max_step_time_ratio=1.1))["max_step_time_ratio"]
    assert (unnamed.outcome, unnamed.headline) == ("skipped", "max_step_time_ratio: no baseline is named")


def test_a_folder_of_baselines(tmp_path, baseline, judged, device):
    verdict = judged(tmp_path)
    assert verdict.outcome == "skipped"
    assert "no record of this hardware was accepted yet" in verdict.context[0]
    baseline().rename(tmp_path / f"{device.fingerprint}.json")
    assert judged(tmp_path).outcome == "passed"


def test_the_baseline_is_told(terms, fakes, device, baseline):
    record = measure(
        terms(limits={"max_step_time_ratio": 1.1}),
        "real",
        baseline=baseline(),
        find_device=lambda _mode: device,
        instruments=fakes((11.0,), (1, 2, 3, 4)),
    )
    assert record.baseline.ratios == {"4": 1.1, "8": 0.55}
    assert record.checks["max_step_time_ratio"].outcome == "passed"
    assert "  baseline main: compared" in lines(record)
