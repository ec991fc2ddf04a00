"""One node's share of the shards, into a cache folder that all nodes see: for Slurm and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.cache import settings_key
from pytest_longctx.dataset import open_dataset
from pytest_longctx.engine.division import place, shards_of
from pytest_longctx.engine.processes import DeadShardError, in_processes
from pytest_longctx.engine.shard import Job, run_shard
from pytest_longctx.errors import LongctxError
from pytest_longctx.tokens.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_longctx.contract import Contract
    from pytest_longctx.dataset import Dataset
    from pytest_longctx.dataset.parts import Part
    from pytest_longctx.engine.shard import Done
    from pytest_longctx.settings import Settings


def measure_share(contract: Contract, share: int, shares: int, cache: Path, settings: Settings) -> list[Done]:
    """Measure every `shares`-th shard, from number `share` on, counted from 1.

    A run with `--longctx-cache` on the same folder finds the rows. No lock is taken: other nodes write their
    own rows meanwhile, and files appear whole.

    Raises:
        LongctxError: the rows cannot be measured beforehand, or a shard of them cannot.
    """
    dataset = open_dataset(contract.dataset, contract)
    if not dataset.files or dataset.shape == "lengths":
        raise LongctxError(f"{contract.display}: shares are of rows in files, with texts or tokens")
    key = settings_key(load_tokenizer(contract), contract.supervision)
    if key is None:
        raise LongctxError(f"{contract.display}: the template reads the clock, so no later run may use it")
    folder = cache / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LongctxError(f"the cache {cache} cannot be used: {error.strerror}") from error
    parts = shards_of(dataset, shares)[share - 1 :: shares]
    done = list(settings.watch(_run(Job.of(contract, key, folder), parts, settings, dataset), "shards"))
    for one in done:
        if one.refused:
            raise LongctxError(f"{place(dataset.files[one.part.file], one.part)}: {one.refused}")
    return done


def _run(job: Job, parts: list[Part], settings: Settings, dataset: Dataset) -> Iterator[Done]:
    if (settings.jobs or 1) == 1:
        yield from (run_shard(job, part) for part in parts)
        return
    try:
        yield from in_processes(job, parts, settings.jobs or 1)
    except DeadShardError as error:
        raise LongctxError(f"{place(dataset.files[error.part.file], error.part)}: {error}") from None
