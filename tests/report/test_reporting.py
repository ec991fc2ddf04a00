"""The reports of real runs: all files, xdist, JUnit, GitHub, waivers and baseline."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pyarrow.parquet as parquet
import pytest

CONTRACT = """\
contract: 1
name: lengths
dataset: {path: rows.jsonl, shape: lengths, id: name}
window:
  target_context_len: 10
  limits: {max_overflow_ratio: 0.5}
"""
SLICED = CONTRACT.replace("id: name", "id: name, slices: source")
OFTEN = [pytest.param((), id="plain"), pytest.param(("-n2",), id="n2")]
CHECK = "window::max_overflow_ratio"


@pytest.fixture(autouse=True)
def _no_github(monkeypatch):
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(pytester):
    """Run a contract over four samples, of which the given number overflows; options are those of pytest."""

    def run(*options, more="", over=1, contract=CONTRACT):
        sizes = [5] * (4 - over) + [50] * over
        rows = [
            {
                "name": f"s{number}",
                "prompt_tokens": size,
                "supervised_tokens": 5,
                "source": "long" if size > 5 else "short",
            }
            for number, size in enumerate(sizes)
        ]
        (pytester.path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (pytester.path / "c.yaml").write_text(contract + more)
        return pytester.runpytest_inprocess("--longctx-contract=c.yaml", *options)

    return run


@pytest.fixture
def commented(pytester, examples):
    """A contract below two lines of comment, over one chat without an answer."""
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}]
    (pytester.path / "rows.jsonl").write_text(json.dumps({"messages": chat}) + "\n")
    tokenizer = f"{{path: {examples / 'tokenizer'}, chat_template: {examples / 'chatml.jinja'}}}"
    terms = f"contract: 1\ntokenizer: {tokenizer}\ndataset: {{path: rows.jsonl}}\n"
    (pytester.path / "c.yaml").write_text(f"# A comment\n# of two lines.\n{terms}")
    return "c.yaml"


def report(pytester, name="r.json"):
    return json.loads((pytester.path / name).read_bytes())


@pytest.mark.parametrize("xdist", OFTEN)
def test_all_files_of_a_run(run, pytester, xdist):
    result = run(
        "--longctx-report=o/r.json", "--longctx-html=o/r.html", "--longctx-ledger=o/l.parquet", *xdist
    )
    assert result.ret == 0
    made = report(pytester, "o/r.json")
    (entry,) = made["contracts"]
    assert (made["verdict"], made["complete"], entry["name"]) == ("passed", True, "lengths")
    measured = {record["check"]: record["measured"] for record in entry["checks"]}
    assert measured[CHECK] == 0.25
    assert entry["evidence"]["ledger"]["samples"] == 4
    assert entry["evidence"]["offenders"][CHECK]["ids"] == ["s3"]
    assert entry["provenance"]["dataset"]["rows"] == 4
    assert "<h2>lengths</h2>" in (pytester.path / "o" / "r.html").read_text("utf-8")
    table = parquet.read_table(pytester.path / "o" / "l.parquet").to_pylist()
    assert [row["decision"] for row in table] == ["fit", "fit", "fit", "overflow"]
    assert {row["file"] for row in table} == {"rows.jsonl"}
    assert sorted(path.name for path in (pytester.path / "o").iterdir()) == ["l.parquet", "r.html", "r.json"]
    result.stdout.fnmatch_lines(
        ["*longctx reports*", "report: *r.json", "HTML report: *r.html", "ledger: *4 samples*"]
    )


def test_xdist_changes_nothing(run, pytester):
    bound = 'baseline: {max_regression: {"window::max_overflow_ratio": 0}}\n'
    waived = TestWaivers.waiver("window::policy", "2020-01-01")
    run("--longctx-report=r.json", "--junitxml=j.xml", over=3, more=bound + waived)
    alone, junit = report(pytester), TestJunit.properties(pytester)
    run("--longctx-report=r.json", "--junitxml=j.xml", "-n2", over=3, more=bound + waived)
    together = report(pytester)
    for made in (alone, together):
        made.pop("generated")
    assert alone == together
    assert TestJunit.properties(pytester) == junit
    assert junit["longctx_outcome"] == "failed"


def test_no_report_unless_asked(run, pytester):
    result = run()
    result.stdout.no_fnmatch_line("*longctx reports*")
    written = {path.name for path in pytester.path.iterdir()} - {"__pycache__", ".pytest_cache"}
    assert written <= {"c.yaml", "rows.jsonl", ".benchmarks", ".hypothesis"}


def test_a_failure_with_its_witnesses(run, pytester):
    assert run("--longctx-report=r.json", over=3).ret == 1
    (record,) = [each for each in report(pytester)["contracts"][0]["checks"] if each["outcome"] == "failed"]
    assert (record["check"], record["line"], record["measured"], record["limit"]) == (CHECK, 6, 0.75, 0.5)
    assert {row["id"] for row in record["witnesses"]} == {"s1", "s2", "s3"}


def test_checks_that_could_not_be_judged(run, pytester):
    contract = CONTRACT.replace("rows.jsonl", "absent.jsonl")
    assert run("--longctx-report=r.json", contract=contract).ret == 1
    made = report(pytester)
    assert made["verdict"] == "error"
    errors = {record["error"] for record in made["contracts"][0]["checks"] if record["outcome"] == "error"}
    assert len(errors) == 1
    assert "absent.jsonl" in errors.pop()


def test_a_run_that_stops_at_the_first_failure(run, pytester):
    more = "lengths: {short_threshold: 1, long_threshold: 2, limits: {max_tokens: 1}}\n"
    assert run("--longctx-report=r.json", "-x", more=more).ret == 1
    made = report(pytester)
    assert made["complete"] is False
    assert made["contracts"][0]["evidence"]["ledger"]["samples"] == 4


def test_chosen_checks_only(run, pytester):
    run("--longctx-report=r.json", "-k", "policy")
    assert [record["check"] for record in report(pytester)["contracts"][0]["checks"]] == ["window::policy"]


def test_a_contract_named_as_a_file(run, pytester):
    run()
    pytester.runpytest_inprocess("c.yaml", "--longctx-report=r.json")
    assert report(pytester)["contracts"][0]["path"] == "c.yaml"


@pytest.mark.parametrize("xdist", OFTEN)
def test_the_hook_sees_the_report_once(run, pytester, xdist):
    pytester.makeconftest(
        "import pathlib\n"
        "def pytest_longctx_report(report):\n"
        "    with pathlib.Path('seen').open('a') as file:\n"
        "        samples = report['contracts'][0]['evidence']['ledger']['samples']\n"
        "        print(report['verdict'], samples, file=file)\n"
    )
    run(*xdist)
    assert (pytester.path / "seen").read_text() == "passed 4\n"


def test_a_report_that_cannot_be_written_fails_the_run(run, pytester):
    (pytester.path / "file").write_text("")
    result = run("--longctx-report=file/r.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["the report was not written to *"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--longctx-html=."], "*--longctx-html: * is a folder, expected a file"),
        (
            ["--longctx-baseline=b.json"],
            "*--longctx-baseline: there is no file *b.json; make it on the main branch*",
        ),
        (["--longctx-update-baseline"], "*--longctx-update-baseline needs --longctx-baseline=FILE*"),
    ],
)
def test_wrong_use_stops_before_anything_runs(run, options, message):
    result = run(*options)
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])


class TestJunit:
    @staticmethod
    def properties(pytester):
        root = ElementTree.parse(pytester.path / "j.xml")
        (case,) = [case for case in root.iter("testcase") if case.get("name") == "max_overflow_ratio"]
        return {each.get("name"): each.get("value") for each in case.iter("property")}

    def test_measured_and_limit(self, run, pytester):
        run("--junitxml=j.xml", "--longctx-report=r.json")
        assert self.properties(pytester) == {
            "longctx_outcome": "passed",
            "longctx_measured": "0.25",
            "longctx_limit": "0.5",
            "longctx_unit": "ratio",
        }

    def test_the_ini_key_turns_them_off(self, run, pytester):
        run("--junitxml=j.xml", "-o", "longctx_junit_properties=false")
        assert self.properties(pytester) == {}

    def test_a_property_of_a_users_test_is_left_alone(self, pytester):
        pytester.makepyfile(
            "import pytest\n"
            "@pytest.mark.parametrize('name', ['longctx', 'longctx_evidence'])\n"
            "def test_context(record_property, name): record_property(name, 32768)\n"
        )
        result = pytester.runpytest_inprocess("--junitxml=j.xml", "-o", "junit_family=xunit1")
        result.assert_outcomes(passed=2)
        root = ElementTree.parse(pytester.path / "j.xml")
        found = {each.get("name"): each.get("value") for each in root.iter("property")}
        assert found == {"longctx": "32768", "longctx_evidence": "32768"}


class TestGithub:
    def test_annotation_and_summary(self, run, pytester, monkeypatch):
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
        monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
        result = run(over=3)
        commands = [line for line in result.outlines if line.startswith("::")]
        assert len(commands) == 1
        assert commands[0].startswith("::error file=c.yaml,line=6,title=window%3A%3Amax_overflow_ratio::")
        assert "longctx: 1 of" in (pytester.path / "summary.md").read_text("utf-8")

    def test_what_a_section_that_is_absent_leaves_to_its_defaults(self, pytester, monkeypatch, commented):
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        result = pytester.runpytest_inprocess(f"--longctx-contract={commented}", "-k", "present", "-rf")
        assert result.ret == 1
        absent = "no section supervision: its defaults hold"
        result.stdout.fnmatch_lines(["present: 1 *", f"  c.yaml:3   {absent}"])
        (command,) = [line for line in result.outlines if line.startswith("::")]
        assert command.startswith("::error file=c.yaml,line=3,title=supervision%3A%3Apresent::")
        assert f"%0A{absent}%0A" in command

    def test_a_run_without_contracts_says_nothing(self, pytester, monkeypatch):
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
        pytester.makepyfile("def test_x(): assert 0")
        result = pytester.runpytest_inprocess()
        result.stdout.no_fnmatch_line("::*")
        assert not (pytester.path / "summary.md").exists()


class TestWaivers:
    @staticmethod
    def waiver(check, until):
        return f"waivers: [{{check: '{check}', until: {until}, reason: legacy shard, ticket: DATA-12}}]\n"

    def test_a_waived_failure_passes_and_is_told(self, run, pytester):
        result = run("--longctx-report=r.json", "-rx", over=3, more=self.waiver(CHECK, "2999-12-31"))
        assert result.ret == 0
        assert result.parseoutcomes()["xfailed"] == 1
        result.stdout.fnmatch_lines([f"XFAIL *{CHECK}*waived until 2999-12-31: legacy shard, DATA-12*"])
        made = report(pytester)
        assert (made["verdict"], made["counts"]["waived"]) == ("passed", 1)

    def test_a_waiver_that_is_over(self, run):
        result = run(over=3, more=self.waiver(CHECK, "2020-01-31"))
        assert result.ret == 1
        result.stdout.fnmatch_lines(
            [
                "max_overflow_ratio 75 % > 50 %*",
                "*the waiver is over since the end of 2020-01-31 UTC: legacy shard*",
            ]
        )

    def test_a_waiver_that_is_not_needed(self, run, pytester):
        result = run("--longctx-report=r.json", more=self.waiver(CHECK, "2999-12-31"))
        assert result.ret == 1
        result.stdout.fnmatch_lines(["max_overflow_ratio holds: its waiver is not needed; remove the waiver"])
        assert report(pytester)["verdict"] == "failed"

    def test_no_waiver_excuses_an_error(self, run):
        contract = CONTRACT.replace("rows.jsonl", "absent.jsonl")
        assert run(contract=contract, more=self.waiver(CHECK, "2999-12-31")).ret == 1

    def test_a_waiver_of_an_unknown_check_is_refused(self, run):
        result = run(more=self.waiver("window::max_overflw_ratio", "2999-12-31"))
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*c.yaml:7:*no check 'window::max_overflw_ratio'; did you mean*"])

    @pytest.mark.parametrize(
        ("waived", "fails"),
        [
            ([CHECK], {f"{CHECK}::long"}),
            ([f"{CHECK}::long"], {CHECK}),
            ([CHECK, f"{CHECK}::long"], set()),
        ],
    )
    def test_a_check_and_its_slices_have_waivers_of_their_own(self, run, pytester, waived, fails):
        entries = "".join(f"  - {{check: '{name}', until: 2999-12-31, reason: r}}\n" for name in waived)
        result = run("--longctx-report=r.json", over=3, contract=SLICED, more=f"waivers:\n{entries}")
        assert result.ret == (1 if fails else 0)
        checks = report(pytester)["contracts"][0]["checks"]
        assert {record["check"] for record in checks if record["outcome"] == "failed"} == fails
        assert {record["check"] for record in checks if record["outcome"] == "waived"} == set(waived)
        if fails:
            result.stdout.fnmatch_lines(["  the waiver of window::max_overflow_ratio*covers*"])

    def test_a_waiver_of_a_slice_without_slices_is_refused(self, run):
        result = run(more=self.waiver(f"{CHECK}::long", "2999-12-31"))
        assert result.ret == 4
        result.stderr.fnmatch_lines([f"*c.yaml:7:*'{CHECK}::long' is of a slice*no dataset.slices*"])


class TestBaseline:
    BOUND = 'baseline: {max_regression: {"window::max_overflow_ratio": 0.1}}\n'

    def test_renewed_held_and_broken(self, run, pytester):
        renewed = run("--longctx-baseline=b.json", "--longctx-update-baseline", more=self.BOUND)
        assert renewed.ret == 0
        before = (pytester.path / "b.json").read_bytes()
        assert run("--longctx-baseline=b.json", more=self.BOUND).ret == 0
        worse = run("--longctx-baseline=b.json", more=self.BOUND, over=2)
        assert worse.ret == 1
        worse.stdout.fnmatch_lines([f"c.yaml::{CHECK}: 25 % → 50 %, worse by 25 points*allows 10 points"])
        better = run("--longctx-baseline=b.json", more=self.BOUND, over=0)
        assert better.ret == 0
        better.stdout.fnmatch_lines(
            [f"c.yaml::{CHECK}: 25 % → 0 %, better by 25 points: renew the baseline*"]
        )
        assert (pytester.path / "b.json").read_bytes() == before

    def test_a_removed_limit_fails_and_a_deselected_one_does_not(self, run):
        run("--longctx-baseline=b.json", "--longctx-update-baseline")
        assert run("--longctx-baseline=b.json", "-k", "policy").ret == 0
        without = CONTRACT.replace("  limits: {max_overflow_ratio: 0.5}\n", "")
        result = run("--longctx-baseline=b.json", contract=without)
        assert result.ret == 1
        result.stdout.fnmatch_lines([f"c.yaml::{CHECK}: the check is gone*"])

    def test_a_metric_of_an_unknown_check_is_refused(self, run):
        assert run(more='baseline: {max_regression: {"window::max_x": 0.1}}\n').ret == 4
