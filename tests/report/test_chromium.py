"""The page in a real browser: no error, no request, nothing that runs over the edge."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from pytest_longctx.report.html import page

_spec = importlib.util.spec_from_file_location("chromium", Path(__file__).with_name("chromium.py"))
browser = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(browser)

pytestmark = pytest.mark.skipif(
    browser.executable() is None, reason="needs Chromium: apt-get install chromium"
)

# Elements that end to the right of the page and do not lie in a part that scrolls by itself.
OVER_THE_EDGE = """
[...document.querySelectorAll("body *")].filter(element => {
  const box = element.getBoundingClientRect();
  const over = box.width > 0 && box.right > document.documentElement.clientWidth + 1;
  return over && !element.closest(".wide, svg");
}).map(element => element.outerHTML.slice(0, 80))
"""
SMALLEST_TEXT = """
Math.min(...[...document.querySelectorAll("main p, main td, main dd, main li, main summary")]
  .filter(element => element.getBoundingClientRect().width > 0)
  .map(element => parseFloat(getComputedStyle(element).fontSize)))
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser.chromium(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def written(tmp_path, report, record, failure, drawn):
    failure["witnesses"][0]["id"] = "a-very-long-row-id/" * 12
    failure["headline"] = "max_overflow_ratio" * 12
    long = record("lengths::max_tokens", "error", error="x" * 400 + "\ny", headline="x" * 400)
    slices = record("window::max_overflow_ratio::slice_with_a_long_name_" + "z" * 60)
    drawn["offenders"] = {
        "dataset::rows": {"count": 2, "ids": ["long" * 60, "<b>"], "reasons": {"w" * 90: 2}}
    }
    path = tmp_path / "report.html"
    path.write_text(page(report(failure, long, slices, evidence=drawn)), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1400])
def test_a_page_at_a_width(tab, written, width, dark):
    tab.open(written, width, dark=dark)
    assert tab.value("document.documentElement.scrollWidth") == width
    assert tab.value(OVER_THE_EDGE) == []
    assert tab.value(SMALLEST_TEXT) >= 12
    assert tab.requests() == [written.as_uri()]
    assert tab.complaints() == []
    assert tab.value("document.querySelectorAll('figure svg').length") in (0, 6)


def test_light_and_dark_differ_and_can_be_read(tab, written):
    seen = {}
    for dark in (False, True):
        tab.open(written, 1400, dark=dark)
        colours = tab.value(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        seen[dark] = [sum(map(int, colour[4:-1].split(","))) for colour in colours]
    assert seen[False][0] < 150 < 600 < seen[False][1]
    assert seen[True][1] < 150 < 600 < seen[True][0]


def test_it_prints(tab, written):
    tab.open(written, 1400)
    pdf = tab.pdf()
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 10_000
