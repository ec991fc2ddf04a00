"""The entries that a pass over the rows need not make: from the cache, or made by others just before."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_longctx.cache import CacheFolder, settings_key
from pytest_longctx.dataset import Conversation
from pytest_longctx.engine.division import jobs_of, place, shards_of
from pytest_longctx.engine.exchange import receive
from pytest_longctx.engine.on_ray import on_ray
from pytest_longctx.engine.processes import DeadShardError, in_processes
from pytest_longctx.engine.shard import Job
from pytest_longctx.errors import LongctxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_longctx.cache import Store
    from pytest_longctx.contract import Contract
    from pytest_longctx.dataset import Dataset
    from pytest_longctx.dataset.parts import Part
    from pytest_longctx.engine.shard import Done
    from pytest_longctx.settings import Settings
    from pytest_longctx.tokens.tokenizer import Tokenizer

Engine: TypeAlias = "Callable[[Job, Sequence[Part]], Iterator[Done]]"

FEW = 2_000  # rows that are measured here, before other processes would have started
_BLOCK = 256
_THIS_RUN = "this-run"  # of a template that reads the clock, whose entries no other run may use


@contextmanager
def known_entries(
    contract: Contract, dataset: Dataset, tokenizer: Tokenizer | None, settings: Settings
) -> Iterator[Store | None]:
    """What the pass over all rows need not measure; None where it measures everything.

    Where only some rows are drawn, no other process measures any.

    Raises:
        LongctxError: a shard that cannot be measured, with its file and rows.
    """
    if tokenizer is None or dataset.shape == "lengths":
        yield None
        return
    key = settings_key(tokenizer, contract.supervision)
    elsewhere = not contract.dataset.sample and _elsewhere(dataset, settings)
    with ExitStack() as stack:
        store = None
        if settings.cache and key:
            cache = CacheFolder(settings.cache, settings.cache_bytes, settings.tell)
            store = stack.enter_context(cache.store(key))
        if store is None and elsewhere:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="longctx-"))
            store = stack.enter_context(CacheFolder(Path(folder)).store(_THIS_RUN))
        if store is not None and elsewhere and _misses_many(dataset, store):
            _fill(Job.of(contract, key, store.folder, settings.exchange), dataset, elsewhere, settings)
            store.reload()
        yield store


def _elsewhere(dataset: Dataset, settings: Settings) -> Engine | None:
    """What measures rows outside of this process; None where nothing does."""
    if not dataset.files:
        return None
    if settings.engine == "ray":
        return on_ray
    jobs = jobs_of(settings.jobs, dataset, settings.workers)
    return (lambda job, parts: in_processes(job, parts, jobs)) if jobs > 1 else None


def _misses_many(dataset: Dataset, store: Store) -> bool:
    """Whether more rows are unknown than this process measures itself before others have started."""
    missing, block = 0, []
    for item in dataset:
        if isinstance(item, Conversation):
            block.append(item)
        if len(block) == _BLOCK:
            missing += store.missing(block)
            block.clear()
            if missing > FEW:
                return True
    return missing + store.missing(block) > FEW


def _fill(job: Job, dataset: Dataset, engine: Engine, settings: Settings) -> None:
    parts = shards_of(dataset, jobs_of(settings.jobs, dataset, settings.workers))
    try:
        done = list(settings.watch(engine(job, parts), "shards"))
    except DeadShardError as error:
        raise LongctxError(f"{place(dataset.files[error.part.file], error.part)}: {error}") from None
    check_complete(parts, done)
    if job.exchange:
        receive(job.exchange, Path(job.store), [pack for one in done for pack in one.packs])
    refused = [one for one in done if one.refused]
    if refused:
        first = min(refused, key=lambda one: (one.part.file, one.part.start))
        shard = place(dataset.files[first.part.file], first.part)
        settings.tell(f"{len(refused):,} shards are measured here; of {shard}: {first.refused}")


def check_complete(parts: Sequence[Part], done: Sequence[Done]) -> None:
    """Every shard of the plan came back once, and no other.

    Raises:
        LongctxError: not so.
    """
    if Counter(parts) != Counter(one.part for one in done):
        raise LongctxError(f"{len(parts):,} shards were planned, and {len(done):,} others came back")
