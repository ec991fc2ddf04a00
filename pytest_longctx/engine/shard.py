"""One shard: part of a file → entries in a store. It runs in any process, from its arguments alone."""

from __future__ import annotations

import atexit
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_longctx.engine.exchange import send
from pytest_longctx.errors import LongctxError

if TYPE_CHECKING:
    from pytest_longctx.cache import Store
    from pytest_longctx.contract import Contract
    from pytest_longctx.dataset import Dataset
    from pytest_longctx.dataset.parts import Part
    from pytest_longctx.tokens.sample import Sampler


@dataclass(frozen=True)
class Job:
    """What all shards of a run have in common.

    contract: its absolute path; sha256: of its bytes; settings: the key of its settings, None where rows
    cannot be known; store: the folder of the entries; exchange: the URL to send them to, "" where all
    processes see that folder.
    """

    contract: str
    sha256: str
    settings: str | None
    store: str
    exchange: str = ""

    @classmethod
    def of(cls, contract: Contract, settings: str | None, folder: Path, exchange: str = "") -> Job:
        """The job of a contract whose entries go to a folder."""
        return cls(str(contract.path), contract.sha256, settings, str(folder.absolute()), exchange)


@dataclass(frozen=True)
class Done:
    """A shard that was measured: rows in it, and packs written. refused: why the rest of it was not."""

    part: Part
    rows: int = 0
    packs: tuple[str, ...] = ()
    refused: str = ""


def run_shard(job: Job, part: Part) -> Done:
    """Measure the rows of a part that the store does not know.

    What cannot be measured or kept is no error here: the pass over all rows comes to it, and tells.
    """
    from pytest_longctx.tokens.build import entries

    try:
        dataset, sampler, store = _begin(job)
        before = len(store.written)
        rows = sum(1 for _ in entries(dataset.part(part), sampler, store))
        store.flush()
        packs = store.written[before:]
        if job.exchange:
            send(job.exchange, store.folder, packs)
            for pack in packs:
                (store.folder / pack).unlink()
    except (LongctxError, OSError) as error:
        return Done(part, refused=str(error))
    return Done(part, rows, tuple(packs), store.problem)


@lru_cache(maxsize=1)
def _begin(job: Job) -> tuple[Dataset, Sampler, Store]:
    """Once a process: tokenizer and template loaded, the store looked through."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the other cores have shards of their own
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from pytest_longctx.cache import Store, settings_key
    from pytest_longctx.contract import load_contract
    from pytest_longctx.dataset import open_dataset
    from pytest_longctx.tokens.build import sampler_for
    from pytest_longctx.tokens.tokenizer import load_tokenizer

    contract = load_contract(job.contract)
    if contract.sha256 != job.sha256:
        raise LongctxError(f"{job.contract} changed while the run went on")
    dataset = open_dataset(contract.dataset, contract)
    tokenizer = load_tokenizer(contract)
    if settings_key(tokenizer, contract.supervision) != job.settings:
        raise LongctxError(f"{platform.node()} has other libraries, or another tokenizer, than the run")
    folder = _own_folder() if job.exchange else Path(job.store)
    return dataset, sampler_for(dataset.shape, tokenizer, contract.supervision), Store(folder)


def _own_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="longctx-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
