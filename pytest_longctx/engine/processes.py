"""Shards in processes of this machine."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from pytest_longctx.engine.shard import run_shard
from pytest_longctx.errors import LongctxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_longctx.dataset.parts import Part
    from pytest_longctx.engine.shard import Done, Job

TRIES = 3


class DeadShardError(LongctxError):
    """A shard that failed each time."""

    def __init__(self, part: Part, reason: str = f"the process that measured it died {TRIES} times") -> None:
        self.part = part
        super().__init__(reason)


def in_processes(job: Job, parts: Sequence[Part], jobs: int) -> Iterator[Done]:
    """Every part measured, in the order in which they are done.

    A process that dies takes its shard along; what is left is tried again, then each shard alone, so that
    the one to blame is found.

    Raises:
        DeadShardError: a shard whose process died even alone.
    """
    left = dict.fromkeys(parts)
    for attempt in range(TRIES):
        alone = attempt == TRIES - 1
        for group in [[part] for part in left] if alone else [list(left)]:
            for done in _run(job, group, 1 if alone else jobs):
                del left[done.part]
                yield done
            if alone and group[0] in left:
                raise DeadShardError(group[0])
        if not left:
            return


def _run(job: Job, parts: Sequence[Part], jobs: int) -> Iterator[Done]:
    """What is done before a process dies, if one does."""
    # Forked processes would inherit threads of the tokenizer in the middle of their work.
    pool = ProcessPoolExecutor(min(jobs, len(parts)), multiprocessing.get_context("spawn"))
    try:
        for future in as_completed([pool.submit(run_shard, job, part) for part in parts]):
            yield future.result()
    except BrokenProcessPool:
        return
    finally:
        pool.shutdown(cancel_futures=True)
