"""GPU measurements: the contract's `gpu` section, run, recorded and judged. Torch is imported late."""

from __future__ import annotations

from pytest_longctx.gpu.device import default_mode, usable_devices
from pytest_longctx.gpu.errors import GpuError, RecordError, UnavailableError
from pytest_longctx.gpu.measure import measure
from pytest_longctx.gpu.record import Record, read_json
from pytest_longctx.gpu.replay import Replay, extra_info, items_of
from pytest_longctx.gpu.summary import headline, lines
from pytest_longctx.gpu.verdicts import check_names, demanded
from pytest_longctx.gpu.workload import Workload, items, workload_of

__all__ = [
    "GpuError",
    "Record",
    "RecordError",
    "Replay",
    "UnavailableError",
    "Workload",
    "check_names",
    "default_mode",
    "demanded",
    "extra_info",
    "headline",
    "items",
    "items_of",
    "lines",
    "measure",
    "read_json",
    "usable_devices",
    "workload_of",
]
