"""Shares of the rows, measured on nodes of their own, are all that a later run needs."""

from __future__ import annotations

import pytest

from pytest_longctx.cli import main
from pytest_longctx.engine.shard import _begin
from tests.cache.test_store import assert_same
from tests.engine.test_known import project  # noqa: F401


@pytest.fixture(autouse=True)
def a_process_of_its_own():
    _begin.cache_clear()
    yield
    _begin.cache_clear()


def test_all_shares_together_are_the_ledger(project, tmp_path, monkeypatch, capsys):  # noqa: F811
    contract = project.contract()
    alone = project.measured(contract)
    cache = tmp_path / "cache"
    told = []
    for share in ("1/3", "2/3", "3/3"):
        assert main(["ledger", str(contract.path), "--shard", share, "--cache", str(cache)]) == 0
        told.append(capsys.readouterr().out)
        _begin.cache_clear()
    counts = [[int(word) for word in line.replace(",", "").split() if word.isdecimal()] for line in told]
    assert sum(rows for _, rows, _ in counts) == alone.rows
    monkeypatch.setattr("pytest_longctx.tokens.sample.Sampler.finish", None)  # nothing is measured again
    assert_same(project.measured(contract, cache=cache), alone)


def test_shares_in_processes(project, tmp_path, capsys):  # noqa: F811
    contract, cache = project.contract(), tmp_path / "cache"
    assert main(["ledger", str(contract.path), "--jobs", "2", "--cache", str(cache)]) == 0
    assert_same(project.measured(contract, cache=cache), project.measured(contract))


def test_a_share_that_has_no_shard_is_no_fault(project, tmp_path, capsys):  # noqa: F811
    contract = project.contract()
    arguments = ["ledger", str(contract.path), "--shard", "999/1000", "--cache", str(tmp_path / "cache")]
    assert main(arguments) == 0
    assert ": 0 shards, 0 rows, 0 new packs" in capsys.readouterr().out


@pytest.mark.parametrize("share", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3"])
def test_a_share_that_is_none(project, capsys, share):  # noqa: F811
    with pytest.raises(SystemExit):
        main(["ledger", "sft.yaml", f"--shard={share}", "--cache", "c"])
    assert f"found '{share}', expected I/N with I from 1 to N" in capsys.readouterr().err


def test_what_cannot_be_measured_beforehand_is_told(project, tmp_path, capsys):  # noqa: F811
    path = tmp_path / "clock.jinja"
    path.write_text("{{ strftime_now('%Y') }}{% generation %}x{% endgeneration %}")
    contract = project.contract(template="clock.jinja")
    assert main(["ledger", str(contract.path), "--cache", str(tmp_path / "cache")]) == 1
    assert "the template reads the clock" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_told(project, tmp_path, capsys):  # noqa: F811
    (tmp_path / "file").write_text("")
    contract = project.contract()
    assert main(["ledger", str(contract.path), "--cache", str(tmp_path / "file")]) == 1
    assert "file cannot be used: Not a directory" in capsys.readouterr().out
