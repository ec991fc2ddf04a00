"""How time and memory are measured: by CUDA's own counters, or on a CPU by the wall and the tensors."""

from __future__ import annotations

import re
import weakref
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from pytest_longctx.gpu.record import Peak

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Clock(Protocol):
    """Times one step."""

    name: str

    def seconds(self, step: Callable[[], None]) -> float:
        """Run the step once; the seconds until all of its work is done."""


class MemoryCounter(Protocol):
    """Counts the memory of some steps."""

    name: str

    def peak(self, steps: Callable[[], None]) -> Peak:
        """Reset the statistics, run the steps, and return their peaks in bytes."""


class CudaClock:
    """CUDA events around the step; the device is idle before it and after it."""

    name = "CUDA events"

    def seconds(self, step: Callable[[], None]) -> float:
        """Seconds on the device's own clock."""
        import torch

        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1000


class CudaMemory:
    """The caching allocator's peaks; its cache is emptied before, so that reserved bytes are these steps'."""

    name = "torch.cuda.max_memory_allocated"

    def peak(self, steps: Callable[[], None]) -> Peak:
        """Peaks of the steps, the model's weights included."""
        import torch

        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        steps()
        torch.cuda.synchronize()
        return Peak(int(torch.cuda.max_memory_allocated()), int(torch.cuda.max_memory_reserved()))


class WallClock:
    """The process's own clock, for work that is done when a call returns."""

    name = "perf_counter"

    def seconds(self, step: Callable[[], None]) -> float:
        """Seconds of wall time."""
        start = perf_counter()
        step()
        return perf_counter() - start


class LiveTensors:
    """The bytes of all storages that operations made and that are still held, weights not included."""

    name = "live tensors"

    def __init__(self) -> None:
        self._live: dict[int, int] = {}
        self._bytes = self._most = 0

    def peak(self, steps: Callable[[], None]) -> Peak:
        """The greatest sum of live bytes; on a CPU nothing is reserved beyond it."""
        self._live, self._bytes, self._most = {}, 0, 0
        with watch(lambda _name, tensor: self._see(tensor)):
            steps()
        return Peak(self._most, self._most)

    def _see(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._live:
            return
        self._live[key] = size
        self._bytes += size
        self._most = max(self._most, self._bytes)
        weakref.finalize(storage, self._drop, self._live, key)

    def _drop(self, live: dict[int, int], key: int) -> None:
        size = live.pop(key, 0)
        if live is self._live:  # else it outlived its own count
            self._bytes -= size


def watch(see: Callable[[str, Any], None]) -> AbstractContextManager[Any]:
    """Call `see(operation, tensor)` for every tensor that an operation below autograd makes."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(made):
                if isinstance(leaf, torch.Tensor):
                    see(str(func), leaf)
            return made

    return Watch()  # type: ignore[no-untyped-call]


_SOFTMAX = {"aten._softmax.default", "aten._safe_softmax.default"}
_KERNEL = re.compile(r"^aten\._?((?:scaled_dot_product|efficient|flash|cudnn)_\w*?attention\w*)\.")


def kernels_of(attention: str, step: Callable[[], None]) -> tuple[str, ...]:
    """The attention kernels of a step: what PyTorch chose for `sdpa`, else the implementation.

    `scaled_dot_product_flash_attention`, `…_efficient_attention`, `…_cudnn_attention`; `math` where only
    plain products and a softmax ran.
    """
    if attention not in ("eager", "sdpa"):
        step()
        return (attention,)
    names: set[str] = set()
    with watch(lambda name, _tensor: names.add(name)):
        step()
    found = {match[1] for name in names if (match := _KERNEL.match(name)) and "backward" not in match[1]}
    plain = {"math"} if names & _SOFTMAX else set()
    return tuple(sorted(found or plain or {"none seen"}))
