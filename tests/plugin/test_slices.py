"""Limits per slice, and samples of the rows."""

from __future__ import annotations

import pytest

from pytest_longctx import check_contract
from pytest_longctx.slices import slice_names

CONTRACT = "--longctx-contract=contracts/sft.yaml"


@pytest.fixture
def sliced(rows, project, pytester):
    """Ten chats, of which the two of `The Web` are too long for the window."""

    def write(**dataset):
        for number, row in enumerate(rows):
            row["source"] = "The Web" if number < 2 else "books"
            if number < 2:
                row["messages"][0]["content"] = "why " * 100
        data = {"path": str(pytester.path / "data" / "chats.jsonl"), "id": "uid", **dataset}
        window = {"target_context_len": 64, "limits": {"max_overflow_ratio": 0.25}}
        return project(dataset=data, window=window, packing=None)

    return write


def test_each_limit_holds_per_slice(pytester, sliced):
    sliced(slices="source")
    result = pytester.runpytest(CONTRACT, "-v")
    result.stdout.fnmatch_lines_random(
        [
            "*::window::max_overflow_ratio PASSED*",
            "*::window::max_overflow_ratio::books PASSED*",
            "*::window::max_overflow_ratio::the_web FAILED*",
            "max_overflow_ratio 100 % > 25 %  (2 of 2 samples)",
            "*dataset::slices PASSED*",
        ]
    )
    assert result.ret == 1


def test_the_empty_value_is_a_slice_of_its_own(pytester, sliced, rows):
    """Of ten rows the two too long ones have the source "": 20 % of all, but all of theirs."""
    path = sliced(slices="source")
    data = pytester.path / "data" / "chats.jsonl"
    data.write_text(data.read_text().replace('"The Web"', '""').replace('"books"', '"(empty)"'))
    result = pytester.runpytest(CONTRACT, "-v")
    result.stdout.fnmatch_lines_random(
        [
            "*::window::max_overflow_ratio PASSED*",
            "*::window::max_overflow_ratio::empty PASSED*",
            "*::window::max_overflow_ratio::(empty) FAILED*",
            "max_overflow_ratio 100 % > 25 %  (2 of 2 samples)",
        ]
    )
    pytester.runpytest("contracts/sft.yaml::window::max_overflow_ratio::(empty)").assert_outcomes(failed=1)
    judged = {found.check.id: found.check.slice for found in check_contract(path).results}
    assert judged["window::max_overflow_ratio"] is None
    assert judged["window::max_overflow_ratio::(empty)"] == ""
    waiver = "waivers: [{check: 'window::max_overflow_ratio::(empty)', until: 2999-01-01, reason: old}]\n"
    path.write_text(path.read_text() + waiver)
    again = pytester.runpytest_subprocess(CONTRACT, "-k", "max_overflow_ratio")
    assert again.parseoutcomes()["xfailed"] == 1


def test_names_of_slices():
    names = slice_names(["", " ", "(empty)", "The Web", "empty", "the-web", "值"])
    assert names == {
        "(empty)": "",
        "value": " ",
        "empty": "(empty)",
        "the_web": "The Web",
        "empty_2": "empty",
        "the_web_2": "the-web",
        "value_2": "值",
    }


def test_a_slice_can_be_pasted_back(pytester, sliced):
    sliced(slices="source")
    one = pytester.runpytest("contracts/sft.yaml::window::max_overflow_ratio::books")
    one.assert_outcomes(passed=1)
    failed = pytester.runpytest(CONTRACT).parseoutcomes()["failed"]
    again = pytester.runpytest(CONTRACT, "--lf").parseoutcomes()
    assert again["failed"] == failed


@pytest.mark.parametrize("xdist", [("-n0",), ("-n2", "--dist", "loadfile")], ids=["n0", "n2"])
def test_slices_under_xdist(pytester, sliced, xdist):
    sliced(slices="source")
    assert pytester.runpytest(CONTRACT, *xdist).parseoutcomes()["failed"] == 1


def test_a_script_judges_the_same_items(pytester, sliced):
    """`check_contract` gives the ids and outcomes that pytest gives, slices included."""
    path = sliced(slices="source")
    result = pytester.runpytest_subprocess(CONTRACT, "-v")
    judged = {f"{found.check.id} {found.outcome}" for found in check_contract(path).results}
    seen = {
        f"{words[0].partition('::')[2]} {words[1].lower()}"
        for words in (line.split() for line in result.outlines)
        if len(words) > 1 and words[0].startswith("contracts/sft.yaml::")
    }
    assert "window::max_overflow_ratio::the_web failed" in judged
    assert seen == judged


def test_a_row_without_a_slice(pytester, sliced):
    sliced(slices="origin")
    result = pytester.runpytest(CONTRACT)
    assert "row chat-0 has no text or number in 'origin'; give every row a value" in " ".join(
        result.stdout.str().split()
    )


def test_too_many_slices(pytester, sliced, rows):
    rows.extend({**rows[0], "uid": f"more-{number}"} for number in range(60))
    sliced(slices="uid")
    result = pytester.runpytest(CONTRACT)
    assert "has more than 50 values" in " ".join(result.stdout.str().split())


def test_a_sample_too_small_to_decide(pytester, sliced):
    """Eight drawn rows say little: the limit fails and names a size that could decide it."""
    sliced(sample={"rows": 8, "seed": 1})
    result = pytester.runpytest(CONTRACT)
    assert result.ret == 1
    text = " ".join(result.stdout.str().split())
    assert "drawn rows cannot decide the limit 25 %" in text or "max_overflow_ratio 25 %" in text
    assert "8 rows drawn; with 95 % confidence between" in text
    assert "dataset.sample.rows" in text


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ([], "none of the 8 drawn rows is of slice 'The Web' (2 of 10 rows): raise dataset.sample.rows"),
        (
            [5],
            "none of the 8 drawn rows became a sample of slice 'The Web' (2 of 10 rows): "
            "raise dataset.sample.rows, or see dataset::rows",
        ),
    ],
)
def test_a_slice_of_which_no_row_was_drawn(sliced, rows, bad, told):
    """Seed 7 leaves out the first two rows of ten; a row without a sample may be of any slice."""
    for number in bad:
        rows[number]["messages"] = []
    path = sliced(slices="source", sample={"rows": 8, "seed": 7})
    errors = {found.check.id: found.error for found in check_contract(path).results if found.error}
    assert errors == {"window::max_overflow_ratio::the_web": told}


@pytest.mark.parametrize(
    ("bad", "whole", "books"),
    [([], "8 rows drawn; {} 20 %", None), ([5], "7 rows drawn; {} 22.22 %", "7 rows drawn; {} 12.5 %")],
)
def test_rows_that_were_not_drawn_are_of_the_slice(sliced, rows, bad, whole, books):
    """Seed 7 draws all eight books: the two others may overflow, a drawn row without a sample cannot.

    Whether that one is of the slice is not known: a book may be left.
    """
    for number in bad:
        rows[number]["messages"] = []
    path = sliced(slices="source", sample={"rows": 8, "seed": 7})
    path.write_text(path.read_text().replace("0.25", "0.1"))
    verdicts = {found.check.id: found.verdict for found in check_contract(path).results}
    for part, told in (("", whole), ("::books", books)):
        verdict = verdicts[f"window::max_overflow_ratio{part}"]
        expected = told and told.format("with 95 % confidence between 0 % and")
        assert (verdict.outcome, verdict.context[1:]) == (("failed", (expected,)) if told else ("passed", ()))


def test_a_slice_without_a_usable_row_points_to_the_rows(sliced, rows):
    for number, row in enumerate(rows):
        row["kind"] = "broken" if number == 9 else "sound"
    rows[9]["messages"] = []
    path = sliced(slices="kind")
    errors = {found.check.id: found.error for found in check_contract(path).results if found.error}
    assert errors == {"window::max_overflow_ratio::broken": "no row became a sample: see dataset::rows"}


def test_a_sample_of_all_rows_is_exact(pytester, sliced):
    sliced(sample={"rows": 10})
    assert pytester.runpytest(CONTRACT).ret == 0


def test_a_sample_never_decides_the_longest_row(pytester, sliced, rows):
    """Eight drawn rows are below the limit, and say nothing of the two others."""
    path = sliced(sample={"rows": 8, "seed": 1})
    limits = (
        "lengths: {short_threshold: 1, long_threshold: 2, limits: {max_tokens: 9999, max_p95_tokens: 9999}}\n"
    )
    path.write_text(path.read_text() + limits)
    result = pytester.runpytest(CONTRACT, "-m", "longctx_lengths")
    assert result.parseoutcomes()["failed"] == 2
    text = " ".join(result.stdout.str().split())
    assert "max_tokens: 8 drawn rows cannot decide the limit 9,999 tokens" in text
    assert "look at all rows (dataset.sample.rows)" in text
    assert "draw about" not in text
    assert "max_p95_tokens: 8 drawn rows cannot decide the limit 9,999 tokens" in text


def test_a_sample_decides_a_percentile_that_is_far_enough(pytester, project, rows):
    """Of 100 drawn rows all are below the limit: by Wilson at least 96.3 % of all rows are."""
    rows.extend({**rows[0], "uid": f"more-{number}"} for number in range(110))
    data = {"path": str(pytester.path / "data" / "chats.jsonl"), "id": "uid", "sample": {"rows": 100}}
    limits = {"short_threshold": 1, "long_threshold": 2, "limits": {"max_p95_tokens": 9999}}
    project(dataset=data, lengths=limits, packing=None)
    pytester.runpytest(CONTRACT, "-m", "longctx_lengths").assert_outcomes(passed=1, deselected=20)


def test_a_waiver_of_a_slice_that_the_rows_do_not_have(pytester, sliced):
    sliced(slices="source")
    waiver = "waivers: [{check: 'window::max_overflow_ratio::the_wed', until: 2999-01-01, reason: old}]\n"
    path = pytester.path / "contracts" / "sft.yaml"
    path.write_text(path.read_text() + waiver)
    result = pytester.runpytest(CONTRACT)
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*the rows have no slice 'the_wed'; did you mean 'the_web'?"])
    path.write_text(path.read_text().replace("the_wed", "the_web"))
    again = pytester.runpytest_subprocess(CONTRACT, "-k", "max_overflow_ratio")
    assert again.parseoutcomes()["xfailed"] == 1
