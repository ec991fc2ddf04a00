"""What a run of the checks is told beside the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_longctx.progress import silent, unheard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_longctx.progress import Watch

CACHE_BYTES = 4 << 30
GpuMode = Literal["dry_run", "cpu", "real"]


@dataclass(frozen=True)
class Settings:
    """Options of one run.

    required: what must not be missing here (gpu, flash_attention_2, …): its checks fail, not skip. gpu: how
    the section gpu runs, by default `real` where there is a GPU, else `dry_run`. gpu_record: where its record
    goes. under_xdist: whether other workers run beside this one. watch: who is told how far long work is.
    tell: who is told what does not change a verdict. cache: the folder where measured rows are kept, within
    `cache_bytes`. jobs: processes that measure rows, None for as many as are worth it. workers: processes of
    this run that share the machine. engine: whether they are processes of this machine or tasks of Ray, whose
    results come through the URL `exchange` where nodes share no folder.
    """

    required: frozenset[str] = frozenset()
    gpu: GpuMode | None = None
    gpu_record: Path | None = None
    under_xdist: bool = False
    watch: Watch = silent
    tell: Callable[[str], None] = unheard
    cache: Path | None = None
    cache_bytes: int = CACHE_BYTES
    jobs: int | None = 1
    workers: int = 1
    engine: Literal["processes", "ray"] = "processes"
    exchange: str = ""
