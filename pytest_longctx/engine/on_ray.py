"""Shards as tasks of a Ray cluster: RAY_ADDRESS names one, else one is started on this machine.

Every node has this environment, and finds the contract, its tokenizer and its data under the same paths.
Tasks over parts of files survive what actors over rows do not: a worker that dies and a node that leaves.
"""

from __future__ import annotations

import os
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_longctx.engine.processes import TRIES, DeadShardError
from pytest_longctx.engine.shard import run_shard
from pytest_longctx.errors import LongctxError, import_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_longctx.dataset.parts import Part
    from pytest_longctx.engine.shard import Done, Job

SHARD_SECONDS = 900.0  # for one shard, which takes half a minute
_LOOK = 1.0  # seconds between two looks at the clock


def on_ray(job: Job, parts: Sequence[Part]) -> Iterator[Done]:
    """Every part measured, in the order in which they are done.

    Raises:
        DeadShardError: a shard whose worker died, or did not end in time, again and again.
        LongctxError: there is no cluster at RAY_ADDRESS.
        MissingExtraError: ray is not installed.
    """
    ray: Any = import_extra("ray", "ray", "--longctx-engine=ray")
    with _cluster(ray):
        # Ray itself runs a task again when its worker or node is gone.
        task = ray.remote(run_shard).options(num_cpus=1, max_retries=TRIES - 1)
        yield from _Tasks(ray, lambda part: task.remote(job, part), list(reversed(parts)))


@contextmanager
def _cluster(ray: Any) -> Iterator[None]:
    """A connection of our own, unless there is one already."""
    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS")
    local = {} if address else {"include_dashboard": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ray announces its future to those who start it
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", **local)
    # A cluster that is gone, or of another version, ends in exceptions of many kinds.
    except Exception as error:
        raise LongctxError(f"no Ray cluster at {address or 'this machine'}: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


class _Tasks:
    """As many tasks at once as the cluster has processors, so that each begins when it is submitted."""

    def __init__(self, ray: Any, submit: Callable[[Part], Any], waiting: list[Part]) -> None:
        self._ray, self._submit, self._waiting = ray, submit, waiting
        self._running: dict[Any, tuple[Part, float]] = {}
        self._tries: dict[Part, int] = {}

    def __iter__(self) -> Iterator[Done]:
        try:
            while self._waiting or self._running:
                self._start()
                ready, _ = self._ray.wait(list(self._running), timeout=_LOOK)
                for task in ready:
                    part, _ = self._running.pop(task)
                    yield self._result(task, part)
                self._stop_late()
        finally:
            for task in self._running:
                self._ray.cancel(task, force=True)

    def _start(self) -> None:
        slots = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        while self._waiting and len(self._running) < slots:
            part = self._waiting.pop()
            self._tries[part] = self._tries.get(part, 0) + 1
            self._running[self._submit(part)] = part, time.monotonic()

    def _result(self, task: Any, part: Part) -> Done:
        errors = self._ray.exceptions
        try:
            done: Done = self._ray.get(task)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            raise DeadShardError(part, f"the worker that measured it died {TRIES} times") from error
        except errors.RayError as error:
            reason = next(iter(str(error).strip().splitlines()[-1:]), type(error).__name__)
            raise DeadShardError(part, reason) from error
        return done

    def _stop_late(self) -> None:
        for task, (part, since) in list(self._running.items()):
            if time.monotonic() - since > SHARD_SECONDS:
                self._ray.cancel(task, force=True)
                del self._running[task]
                if self._tries[part] == TRIES:
                    reason = f"it had not ended after {SHARD_SECONDS:g} seconds, {TRIES} times"
                    raise DeadShardError(part, reason)
                self._waiting.append(part)
