"""A contract as pytest items: selection, ids, outcomes, with and without xdist."""

from __future__ import annotations

import os

import pyarrow.parquet
import pytest

from pytest_longctx.session import _is_walked

XDIST = [
    pytest.param((), id="plain"),
    pytest.param(("-n0",), id="n0"),
    pytest.param(("-n2", "--dist", "loadfile"), id="n2"),
]

WINDOW_TOO_SMALL = {"target_context_len": 8, "limits": {"max_overflow_ratio": 0.0}}


@pytest.mark.parametrize("xdist", XDIST)
def test_a_sound_contract_passes(pytester, project, xdist):
    project()
    result = pytester.runpytest("--longctx-contract=contracts/sft.yaml", *xdist)
    result.assert_outcomes(passed=result.parseoutcomes()["passed"])
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] > 20
    result.stdout.fnmatch_lines(["*longctx contract*", "*window::max_overflow_ratio*0 %*0 %*passed*"])


@pytest.mark.parametrize("xdist", XDIST)
def test_a_failure_says_what_to_do(pytester, project, xdist):
    project(window=WINDOW_TOO_SMALL, packing=None)
    result = pytester.runpytest("--longctx-contract=contracts/sft.yaml", *xdist)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "max_overflow_ratio 100 % > 0 %  (10 of 10 samples)",
            "  contracts/sft.yaml:*   limits: {max_overflow_ratio: 0.0}",
            "  id *total*template*prompt*supervised*kept*reason",
            "  chat-*",
            "  …*5 more",
            "  a window of * would pass; or drop the 10 rows listed by --longctx-report",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_the_option_takes_a_space_as_well(pytester, project):
    project(packing=None)
    result = pytester.runpytest("--longctx-contract", "contracts/sft.yaml")
    assert result.ret == 0


def test_node_ids_can_be_pasted_back(pytester, project):
    project()
    collected = pytester.runpytest("--longctx-contract=contracts/sft.yaml", "--collect-only", "-q")
    ids = [line for line in collected.outlines if line.startswith("contracts/sft.yaml::")]
    assert "contracts/sft.yaml::window::max_overflow_ratio" in ids
    assert "contracts/sft.yaml::packing::sample_conservation" in ids
    assert len(ids) == len(set(ids))
    chosen = "contracts/sft.yaml::window::max_overflow_ratio"
    pytester.runpytest(chosen).assert_outcomes(passed=1)
    pytester.runpytest("--longctx-contract=contracts/sft.yaml", chosen).assert_outcomes(passed=1)
    pytester.runpytest("contracts/sft.yaml::window").assert_outcomes(passed=2)


def test_keywords_and_marks_select(pytester, project):
    project()
    run = ("--longctx-contract=contracts/sft.yaml",)
    assert pytester.runpytest(*run, "-k", "max_overflow_ratio").parseoutcomes()["passed"] == 1
    section = pytester.runpytest(*run, "-m", "longctx_window", "--strict-markers")
    assert section.parseoutcomes()["passed"] == 2
    nothing = pytester.runpytest(*run, "-m", "not longctx")
    assert nothing.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_last_failed_runs_the_failures_only(pytester, project):
    project(window=WINDOW_TOO_SMALL, packing=None)
    run = ("--longctx-contract=contracts/sft.yaml",)
    failed = pytester.runpytest(*run).parseoutcomes()["failed"]
    again = pytester.runpytest(*run, "--lf").parseoutcomes()
    assert again["failed"] == failed
    assert again.get("passed", 0) == 0


def test_collection_touches_no_data(pytester, project):
    path = project()
    (pytester.path / "data" / "chats.jsonl").unlink()
    result = pytester.runpytest(f"--longctx-contract={path}", "--collect-only", "-q")
    assert result.ret == 0


def test_items_report_the_line_of_the_contract(pytester, project):
    path = project(packing=None)
    items, _ = pytester.inline_genitems(f"--longctx-contract={path}")
    item = next(item for item in items if item.name == "max_overflow_ratio")
    line = path.read_text().splitlines().index("    max_overflow_ratio: 0.0")
    assert item.reportinfo()[:2] == (path, line)


def test_the_option_runs_beside_named_paths(pytester, project):
    project(packing=None)
    pytester.makepyfile("def test_other(): pass")
    alone = pytester.runpytest("--longctx-contract=contracts/sft.yaml").parseoutcomes()["passed"]
    both = pytester.runpytest("--longctx-contract=contracts/sft.yaml", ".").parseoutcomes()["passed"]
    assert both == alone + 1


def test_ini_contracts_run_beside_ordinary_tests(pytester, project):
    project(packing=None)
    pytester.makeini("[pytest]\nlongctx_contracts = contracts/sft.yaml\n")
    pytester.makepyfile(test_other="def test_other(): pass")
    whole = pytester.runpytest("-v")
    whole.stdout.fnmatch_lines_random(
        ["*test_other.py::test_other*PASSED*", "*contracts/sft.yaml::window::policy*PASSED*"]
    )
    pytester.runpytest("test_other.py").assert_outcomes(passed=1)


def test_testpaths_are_patterns_of_rootdir(pytester, project, monkeypatch):
    project(packing=None)
    pytester.makeini("[pytest]\nlongctx_contracts = contracts/sft.yaml\ntestpaths = checks_*\n")
    for name in ("checks_a", "checks_b", "elsewhere"):
        (pytester.mkdir(name) / f"test_{name}.py").write_text("def test_it(): pass")
    shown = "\n".join(pytester.runpytest("--collect-only", "-q").outlines)
    assert "test_checks_a.py" in shown
    assert "test_checks_b.py" in shown
    assert "test_elsewhere.py" not in shown
    monkeypatch.chdir("elsewhere")
    below = "\n".join(pytester.runpytest("--collect-only", "-q").outlines)
    assert "test_elsewhere.py" in below
    assert "test_checks_a.py" not in below
    assert "sft.yaml::window::policy" in below


@pytest.mark.parametrize(
    ("release", "folders", "walked"),
    [((9, 0), ["."], False), ((8, 3), ["."], True), ((8, 3), ["tests"], False), ((8, 3), [], False)],
)
def test_before_pytest_9_the_walk_of_a_folder_finds_its_contracts(
    pytester, monkeypatch, release, folders, walked
):
    """There, a folder named beside a file below it loses all its other tests."""
    monkeypatch.setattr(pytest, "version_tuple", release)
    config = pytester.parseconfig()
    folders = [str(pytester.path / folder) if folder != "." else str(pytester.path) for folder in folders]
    assert _is_walked(config, str(pytester.path / "contracts" / "sft.yaml"), folders) is walked


def test_before_pytest_9_no_walk_enters_some_folders(pytester, monkeypatch):
    monkeypatch.setattr(pytest, "version_tuple", (8, 3))
    hidden = str(pytester.path / ".hidden" / "sft.yaml")
    with pytest.raises(pytest.UsageError, match=r"sft.yaml: pytest 8 enters no such folder"):
        _is_walked(pytester.parseconfig(), hidden, [str(pytester.path)])


def test_other_yaml_files_are_left_alone(pytester):
    (pytester.path / "config.yaml").write_text("contract_of_employment: 1\n")
    (pytester.path / "broken.yml").write_text("contract: [")
    pytester.makepyfile("def test_other(): pass")
    pytester.runpytest().assert_outcomes(passed=1)


def test_a_warning_shows_as_w(pytester, project):
    limits = {
        "target_context_len": 64,
        "limits": {"max_overflow_ratio": 1.0},
        "warn": {"max_truncated_ratio": 0.0},
    }
    limits["target_context_len"], limits["max_supervision_loss_ratio"] = 20, 1.0
    project(window=limits, packing=None)
    result = pytester.runpytest("--longctx-contract=contracts/sft.yaml", "-W", "default", "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*window::max_truncated_ratio WARNED*", "*max_truncated_ratio 100 % > 0 %*"])
    as_error = pytester.runpytest(
        "--longctx-contract=contracts/sft.yaml", "-W", "error::pytest_longctx.nodes.ContractWarning"
    )
    assert as_error.ret == 1
    as_error.stdout.no_fnmatch_line("*nodes.py*")


def test_quiet_runs_print_no_summary(pytester, project):
    project(packing=None)
    result = pytester.runpytest("--longctx-contract=contracts/sft.yaml", "-q", "-q")
    result.stdout.no_fnmatch_line("*longctx contract*")


def test_no_line_of_a_failure_is_wider_than_80_columns(pytester, project):
    project(window=WINDOW_TOO_SMALL, packing=None)
    result = pytester.runpytest("--longctx-contract=contracts/sft.yaml")
    start = next(i for i, line in enumerate(result.outlines) if line.startswith("max_overflow_ratio"))
    assert max(map(len, result.outlines[start : start + 12])) <= 80


@pytest.mark.parametrize("xdist", XDIST)
def test_module_fixtures_of_users_work(pytester, project, xdist):
    project(packing=None)
    pytester.makeconftest(
        "import pytest\n"
        "@pytest.fixture(autouse=True, scope='module')\n"
        "def prepared():\n    yield 1\n"
        "@pytest.fixture(autouse=True)\n"
        "def each(prepared):\n    yield\n"
    )
    assert pytester.runpytest("--longctx-contract=contracts/sft.yaml", *xdist).ret == 0


def test_a_run_without_a_contract_imports_nothing_heavy(pytester):
    pytester.makepyfile("def test_light(): pass")
    pytester.makeconftest("import sys\ndef pytest_unconfigure(): print('imported', *sys.modules)\n")
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:benchmark", "-s")
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.outlines if line.startswith("imported ")]
    imported = set(line.split())
    assert not imported & {"numpy", "pydantic", "yaml", "torch", "transformers", "pyarrow", "orjson"}
    rooms = {"collected", "hookspecs", "options", "plugin", "reporting", "sections"}
    ours = {name for name in imported if name.startswith("pytest_longctx")}
    assert ours == {"pytest_longctx", *(f"pytest_longctx.{room}" for room in rooms)}


def test_reports_may_be_turned_off(pytester):
    pytester.makepyfile("def test_light(): pass")
    assert pytester.runpytest_subprocess("-p", "no:longctx-reporting").ret == 0


def test_a_check_that_raises_is_no_pass(pytester, project):
    project(packing=None)
    pytester.makeconftest(
        "import pytest_longctx.checks.window as window\n"
        "def explode(evidence):\n    raise RuntimeError('boom')\n"
        "window.policy = explode\n"
    )
    # A process of its own: the broken check must not stay behind in this one.
    result = pytester.runpytest_subprocess("--longctx-contract=contracts/sft.yaml", "-k", "policy")
    result.assert_outcomes(failed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*boom*"])


def test_users_see_no_traceback_for_their_own_input(pytester, project):
    project(dataset={"path": "nowhere.jsonl"}, packing=None)
    result = pytester.runpytest("--longctx-contract=contracts/sft.yaml")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*Error:*")
    cause = "  dataset.path 'nowhere.jsonl': no such file"
    # In CI pytest repeats whole messages in its short summary.
    above = result.stdout.str().partition("short test summary info")[0].splitlines()
    told = [line for line in above if line.startswith(cause)]
    assert len(told) == 1


def test_two_contracts_of_one_name_keep_apart(pytester, project):
    project(folder="a", packing=None)
    project(folder="b", packing=None)
    result = pytester.runpytest(
        "--longctx-contract=a/sft.yaml", "--longctx-contract=b/sft.yaml", "--collect-only", "-q"
    )
    assert {line.split("::")[0] for line in result.outlines if "::" in line} == {"a/sft.yaml", "b/sft.yaml"}
    assert result.ret == 0


def test_a_contract_outside_rootdir_has_ids(pytester, project):
    path = project(packing=None)
    inner = pytester.mkdir("inner")
    (inner / "pytest.ini").write_text("[pytest]\n")
    os.chdir(inner)
    result = pytester.runpytest(f"--longctx-contract={path}", "-v", "--rootdir=.")
    result.stdout.fnmatch_lines(["*../contracts/sft.yaml::window::policy PASSED*"])


def test_sections_in_several_workers_give_one_ledger(pytester, project):
    """The worker that packed knows the packed rows, whether it ends first or last."""
    project()
    result = pytester.runpytest(
        "--longctx-contract=contracts/sft.yaml", "-n2", "--dist=loadscope", "--longctx-ledger=l.parquet"
    )
    assert result.ret == 0
    table = pyarrow.parquet.read_table(pytester.path / "l.parquet").to_pylist()
    assert [type(row["packed_row"]) for row in table] == [int] * 10
