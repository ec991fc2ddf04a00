from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from pytest_longctx.report import html, pictures
from pytest_longctx.report.html import page
from pytest_longctx.report.run import sentence

pytest.importorskip("jinja2")


class Reader(HTMLParser):
    """What a browser would make of a page: elements with their attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words = [], []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] != "style":
            self.words.append(data)


@pytest.fixture
def no_pictures(monkeypatch):
    """They take most of a page's time."""
    monkeypatch.setattr(html, "_pictures", lambda evidence, prefix: ([], ""))


def names(reader):
    return {tag for tag, _ in reader.elements}


def test_every_value_is_escaped(report, failure, drawn, no_pictures):
    evil = "<img src=x onerror=alert(1)>\"'"
    failure |= {"headline": evil, "advice": evil, "context": [evil], "check": evil, "error": None}
    drawn["offenders"] = {evil: {"count": 1, "ids": [evil], "reasons": {evil: 1}}}
    drawn["slices"][0]["slice"] = evil
    made = report(failure, evidence=drawn)
    made["contracts"][0] |= {"name": evil, "description": evil, "path": evil}
    reader = Reader(page(made))
    assert not names(reader) & {"img", "script", "iframe", "object", "link"}
    assert reader.text.count("<img src=x onerror=alert(1)>") >= 9
    assert not [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]


def test_control_characters_do_not_reach_the_page(report, failure):
    text = page(report(failure))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_page_asks_for_nothing_from_elsewhere(report, failure, drawn):
    text = page(report(failure, evidence=drawn))
    reader = Reader(text)
    links = [
        value for _, attrs in reader.elements for name, value in attrs.items() if name in ("src", "href")
    ]
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"url\((?!#)|@import", text)
    (policy,) = [attrs["content"] for tag, attrs in reader.elements if attrs.get("http-equiv")]
    assert policy.startswith("default-src 'none'")


def test_ids_are_unique(report, failure, drawn):
    pytest.importorskip("matplotlib")
    made = report(failure, evidence=drawn)
    made["contracts"] *= 2
    reader = Reader(page(made))
    ids = [attrs["id"] for _, attrs in reader.elements if "id" in attrs]
    assert len(ids) > 20
    assert len(ids) == len(set(ids))


def test_without_matplotlib_the_rest_stands(report, failure, drawn, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    reader = Reader(page(report(failure, evidence=drawn)))
    assert "svg" not in names(reader)
    assert "pip install 'pytest-longctx[report]'" in reader.text
    assert "Measured against limits" in reader.text


def test_what_stands_on_the_page(report, record, failure, drawn, no_pictures):
    waiver = {"until": "2027-02-01", "reason": "legacy shard", "ticket": "DATA-12", "status": "waived"}
    waived = record("lengths::max_tokens", "waived", headline="max_tokens 20 > 16", waiver=waiver)
    holds = record("dataset::roles", limit=0, measured=0, unit="offences")
    text = Reader(page(report(failure, waived, holds, evidence=drawn))).text
    assert "1 of 3 checks failed" in text
    assert "failed window::max_overflow_ratio c.yaml, line 13" in text
    assert "and 3 more" in text
    assert "9,120" in text
    assert "Waiver until 2027-02-01 (DATA-12): legacy shard" in text
    assert "dataset roles" in text
    assert "y 2 18 12" in text  # the slice y: 2 samples, 18 tokens, 12 supervised
    assert "2027-01-31 12:00:00 UTC" in text


def test_a_cause_is_told_once(report, record):
    broken = [record(f"packing::c{n}", "error", error="no file\nx", headline="no file") for n in range(3)]
    text = Reader(page(report(*broken))).text
    assert text.count("no file") == 2  # as headline, and in full
    assert "So these 3 checks have no verdict: packing::c0 packing::c1 packing::c2" in text


def test_a_stopped_run_says_so(report, record):
    assert "stopped before its last check" in Reader(page(report(record(), complete=False))).text


def test_a_report_without_checks_has_a_page(report):
    assert "0 checks hold" in Reader(page(report())).text


def test_long_lists_of_rows_are_cut(report, record, drawn, no_pictures):
    drawn["offenders"] = {
        "dataset::rows": {"count": 900, "ids": [f"r{n}" for n in range(900)], "reasons": {}}
    }
    text = Reader(page(report(record(), evidence=drawn))).text
    assert f"r{html.MOST_IDS - 1} " in text
    assert f"r{html.MOST_IDS} " not in text


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"passed": 1}, ("1 check holds", "")),
        ({"passed": 1234}, ("1,234 checks hold", "")),
        ({"passed": 1, "failed": 1}, ("1 of 2 checks failed", "")),
        ({"error": 2, "failed": 1, "waived": 3}, ("2 of 6 checks could not be judged", "1 failed, 3 waived")),
        ({"passed": 2, "skipped": 1}, ("2 checks hold", "1 skipped")),
        ({"failed": 1, "skipped": 2}, ("1 of 3 checks failed", "2 skipped")),
    ],
)
def test_sentences(counts, words):
    every = dict.fromkeys(("error", "failed", "warned", "waived", "skipped", "passed"), 0)
    assert sentence({**every, **counts}) == words


class TestPictures:
    @pytest.fixture(autouse=True)
    def _matplotlib(self):
        pytest.importorskip("matplotlib")

    def test_one_for_each_part_of_the_evidence(self, drawn):
        titles = [title for title, _, _ in pictures.pictures(drawn, "c0")]
        assert titles == [title for title, _, _ in pictures.PICTURES.values()]

    def test_none_without_evidence(self):
        assert list(pictures.pictures(dict.fromkeys(("lengths", "window", "packing")), "c0")) == []

    def test_captions_tell_the_numbers(self, drawn):
        captions = {title: caption for title, caption, _ in pictures.pictures(drawn, "c0")}
        assert captions["Lengths"] == (
            "half of the samples have up to 8 tokens, 95 % up to 20; the longest has 20"
        )
        assert captions["What another window would do"] == (
            "line: the contract's window of 8, 75 % of the supervised tokens kept; "
            "dashed: the smallest window in which the limits hold, 7"
        )
        assert captions["How full the packed rows are"] == "2 rows of at most 10 tokens are 90 % full"
        assert captions["Curriculum"] == (
            "1 stage compared with the one before it; the first point is the baseline"
        )

    def test_the_baseline_is_no_stage(self, drawn):
        baseline, stage = drawn["curriculum"]["stages"]
        stages = {"curriculum": {"stages": [baseline, stage, stage]}}
        ((_, caption, _),) = pictures.pictures(stages, "c0")
        assert caption == "2 stages, each compared with the one before it; the first point is the baseline"

    def test_colours_are_the_pages(self, drawn):
        for _, _, svg in pictures.pictures(drawn, "c0"):
            assert svg.startswith('<svg role="img" aria-label="')
            assert not re.search(r"#0b0c0\d", svg)
            assert "var(--" in svg
            assert "$a_1$" not in svg

    def test_drawn_again_they_are_the_same(self, drawn):
        assert list(pictures.pictures(drawn, "c0")) == list(pictures.pictures(drawn, "c0"))

    @pytest.mark.parametrize(
        "lengths",
        [
            {"edges": [1, 2], "counts": [1], "shortest": 1, "p50": 1, "p95": 1, "p99": 1, "longest": 1},
            {"edges": [0, 1], "counts": [3], "shortest": 0, "p50": 0, "p95": 0, "p99": 0, "longest": 0},
        ],
    )
    def test_a_single_length_can_be_drawn(self, lengths):
        marks = {"window": 1 << 20, "short_threshold": 0, "long_threshold": None}
        assert len(list(pictures.pictures({"lengths": {**lengths, **marks}}, "c0"))) == 1
