"""Shards in processes: each once; one that dies is tried again, and named when it dies for good."""

from __future__ import annotations

import pytest

from pytest_longctx.dataset.parts import Part
from pytest_longctx.engine import processes
from pytest_longctx.engine.processes import DeadShardError, in_processes
from pytest_longctx.engine.shard import Job
from tests.engine import workers

PARTS = [Part(0, start, start + 10) for start in range(0, 50, 10)]


def test_the_shard_whose_process_dies_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "run_shard", workers.dies)
    with pytest.raises(DeadShardError) as found:
        list(in_processes(Job("", "", None, str(tmp_path)), PARTS, 2))
    assert found.value.part == Part(0, 20, 30)
    assert str(found.value) == "the process that measured it died 3 times"


def test_a_process_that_dies_once_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "run_shard", workers.dies_once)
    done = list(in_processes(Job("", "", None, str(tmp_path)), PARTS, 2))
    assert sorted(one.part.start for one in done) == [0, 10, 20, 30, 40]
    assert (tmp_path / "died").exists()
