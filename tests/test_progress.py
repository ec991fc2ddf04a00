from __future__ import annotations

import io

import pytest

from pytest_longctx import progress
from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence
from pytest_longctx.progress import Bars, Lines, silent, watching
from pytest_longctx.settings import Settings


def ticking(*moments):
    """A clock that says these moments, one a call."""
    return iter(moments).__next__


def test_lines_come_every_thirty_seconds():
    stream = io.StringIO()
    clock = ticking(0.0, 10.0, 31.0, 40.0, 62.0)
    assert list(Lines(stream, clock)("abcd", "rows")) == list("abcd")
    assert stream.getvalue() == "longctx: 2 rows in 31 s\nlongctx: 4 rows in 62 s\n"


def test_a_bar_shows_nothing_for_work_that_is_soon_done():
    stream = io.StringIO()
    assert list(Bars(stream)("abc", "rows")) == list("abc")
    assert stream.getvalue() == ""


def test_a_bar_goes_when_the_work_is_done(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0)
    stream = io.StringIO()
    list(Bars(stream, 40)(range(1000), "rows"))
    *shown, cleared, end = stream.getvalue().split("\r")
    assert any("rows" in text for text in shown)
    assert max(map(len, shown)) <= 40
    assert (cleared.strip(), end) == ("", "")


@pytest.mark.parametrize(
    ("environ", "terminal", "kind"),
    [
        ({}, True, Bars),
        ({}, False, type(silent)),
        ({"CI": "true"}, False, Lines),
        ({"CI": "true"}, True, Lines),
        ({"CI": "false"}, False, type(silent)),
    ],
)
def test_who_watches(environ, terminal, kind):
    assert isinstance(watching(io.StringIO(), environ, terminal=terminal), kind)


def test_the_engine_hands_over_rows_and_batches(tmp_path, examples):
    seen = {}

    def watch(items, what):
        for seen[what], item in enumerate(items, 1):
            yield item

    path = tmp_path / "c.yaml"
    path.write_text(
        "contract: 1\n"
        f"tokenizer: {{path: {examples / 'tokenizer'}, chat_template: {examples / 'chatml.jinja'}}}\n"
        f"dataset: {{path: {examples / 'data' / 'tools.jsonl'}}}\n"
        "packing: {max_tokens_per_bin: 8192}\n"
    )
    evidence = Evidence(load_contract(path), settings=Settings(watch=watch))
    assert seen == {}
    assert seen["rows"] == 240 if evidence.measured else False
    assert evidence.audit.batches == seen["packed batches"]
