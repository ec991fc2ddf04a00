"""A real cluster of two nodes in one machine: what it measures equals a local run, whatever dies."""

from __future__ import annotations

import pytest

from pytest_longctx.dataset.parts import Part
from pytest_longctx.engine import known, on_ray
from pytest_longctx.engine.processes import DeadShardError
from pytest_longctx.engine.shard import Job
from pytest_longctx.evidence import BrokenLinkError
from tests.cache.test_store import assert_same
from tests.engine import workers
from tests.engine.test_known import project  # noqa: F401

ray = pytest.importorskip("ray", reason="ray is not installed")
# Ray leaves sockets and processes to the end of the interpreter, and tells of its own future.
pytestmark = pytest.mark.filterwarnings("ignore")

PARTS = [Part(0, start, start + 10) for start in range(0, 100, 10)]


@pytest.fixture
def cluster(monkeypatch):
    """A head without processors of its own, and two nodes with one each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    cluster.nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def starts(done):
    return sorted(one.part.start for one in done)


def test_equal_to_local(cluster, project, tmp_path):  # noqa: F811
    contract = project.contract(id="uid")
    alone = project.measured(contract)
    assert_same(project.measured(contract, engine="ray", cache=tmp_path / "cache"), alone)
    url = (tmp_path / "exchange").as_uri()
    assert_same(project.measured(contract, engine="ray", exchange=url), alone)
    assert len(list((tmp_path / "exchange").glob("*.arrow"))) >= 2
    assert project.told == []


def test_a_worker_that_dies_is_replaced(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "run_shard", workers.dies_once)
    done = list(on_ray.on_ray(Job("", "", None, str(tmp_path)), PARTS))
    assert starts(done) == [part.start for part in PARTS]
    assert (tmp_path / "died").exists()


def test_a_shard_that_kills_its_workers_is_named(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "run_shard", workers.dies)
    with pytest.raises(DeadShardError, match="the worker that measured it died 3 times") as found:
        list(on_ray.on_ray(Job("", "", None, str(tmp_path)), PARTS))
    assert found.value.part == Part(0, 20, 30)


def test_a_shard_that_raises_is_named(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "run_shard", workers.raises)
    with pytest.raises(DeadShardError, match="RuntimeError: a fault") as found:
        list(on_ray.on_ray(Job("", "", None, str(tmp_path)), PARTS))
    assert found.value.part == Part(0, 20, 30)


def test_a_shard_that_does_not_end_is_named(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "run_shard", workers.hangs)
    monkeypatch.setattr(on_ray, "SHARD_SECONDS", 5.0)
    with pytest.raises(DeadShardError, match="it had not ended after 5 seconds, 3 times") as found:
        list(on_ray.on_ray(Job("", "", None, str(tmp_path)), PARTS))
    assert found.value.part == Part(0, 20, 30)


@pytest.mark.parametrize("after", [0, 5], ids=["early", "late"])
def test_a_node_that_leaves_loses_nothing(cluster, tmp_path, monkeypatch, after):
    monkeypatch.setattr(on_ray, "run_shard", workers.measures)
    done = []
    for one in on_ray.on_ray(Job("", "", None, str(tmp_path)), PARTS):
        done.append(one)
        if len(done) == after + 1:
            cluster.remove_node(cluster.nodes.pop(), allow_graceful=False)
    assert starts(done) == [part.start for part in PARTS]


def test_no_cluster_is_told(project, monkeypatch):  # noqa: F811
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    with pytest.raises(BrokenLinkError, match="no Ray cluster at nowhere"):
        project.measured(project.contract(), engine="ray")


def test_a_cluster_of_this_machine(project, monkeypatch):  # noqa: F811
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    contract = project.contract()
    assert_same(project.measured(contract, engine="ray"), project.measured(contract))
    assert not ray.is_initialized()


def test_without_ray_the_way_to_get_it_is_told(project, monkeypatch):  # noqa: F811
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    assert known.on_ray is on_ray.on_ray
    with pytest.raises(BrokenLinkError, match=r"pip install 'pytest-longctx\[ray\]'"):
        project.measured(project.contract(), engine="ray")
