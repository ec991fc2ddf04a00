"""Forward and backward passes of a model: timed, weighed, looked at."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.gpu.clock import CudaClock, CudaMemory, LiveTensors, WallClock, kernels_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch

    from pytest_longctx.gpu.clock import Clock, MemoryCounter
    from pytest_longctx.gpu.device import Device
    from pytest_longctx.gpu.record import Peak

MEMORY_STEPS = 2


@dataclass(frozen=True)
class Instruments:
    """What time and memory are read from."""

    clock: Clock
    memory: MemoryCounter

    @classmethod
    def of(cls, device: Device) -> Instruments:
        """The device's own."""
        return cls(CudaClock(), CudaMemory()) if device.kind == "cuda" else cls(WallClock(), LiveTensors())


@dataclass(frozen=True, slots=True)
class Step:
    """One counted step."""

    seconds: float
    loss: float
    gradient_norm: float


class Training:
    """A model that is stepped without an optimizer, so that every step starts from the same weights."""

    def __init__(self, model: torch.nn.Module, instruments: Instruments) -> None:
        self.model, self.instruments = model, instruments
        self.attention = str(model.config._attn_implementation)  # type: ignore[union-attr]
        self._loss: torch.Tensor | None = None

    def use(self, attention: str) -> None:
        """Switch the attention implementation. Raises what transformers raises where it cannot be had."""
        if attention != self.attention:
            self.model.set_attn_implementation(attention)  # type: ignore[operator]
            self.attention = attention

    def tensors(self, fields: Mapping[str, Any], attention: str) -> dict[str, Any]:
        """A batch of numpy arrays on the model's device; what is no array stays as it is."""
        import torch

        parameter = next(self.model.parameters())
        found = {}
        for name, value in fields.items():
            is_array = isinstance(value, np.ndarray)
            found[name] = torch.from_numpy(value).to(parameter.device) if is_array else value
        mask = found.get("attention_mask")
        if attention == "eager" and mask is not None and mask.dim() == 4:
            # The eager implementation adds its mask to the scores, whatever its type.
            found["attention_mask"] = _additive(mask, parameter.dtype)
        return found

    def step(self, batch: Mapping[str, Any]) -> Step:
        """Clear the gradients, then time one forward and backward pass."""
        self._clear()
        seconds = self.instruments.clock.seconds(lambda: self._pass(batch))
        loss = float("nan") if self._loss is None else float(self._loss)
        return Step(seconds, loss, self._gradient_norm())

    def peak(self, batch: Mapping[str, Any]) -> Peak:
        """Peak memory of steps that are not timed, with the gradients cleared before each."""
        self._clear()
        return self.instruments.memory.peak(lambda: self._untimed(batch))

    def kernels(self, batch: Mapping[str, Any]) -> tuple[str, ...]:
        """The attention kernels that run for a batch."""
        self._clear()
        return kernels_of(self.attention, lambda: self._pass(batch))

    def loss(self, batch: Mapping[str, Any]) -> float:
        """The loss of a batch, without gradients."""
        import torch

        with torch.no_grad():
            return float(self.model(**batch, use_cache=False).loss)

    def close(self) -> None:
        """Let go of the gradients and of the last loss, so that a failed run frees its memory."""
        self._clear()

    def _untimed(self, batch: Mapping[str, Any]) -> None:
        for _ in range(MEMORY_STEPS):
            self._clear()
            self._pass(batch)

    def _pass(self, batch: Mapping[str, Any]) -> None:
        loss = self.model(**batch, use_cache=False).loss
        loss.backward()
        self._loss = loss.detach()

    def _clear(self) -> None:
        self._loss = None
        self.model.zero_grad(set_to_none=True)

    def _gradient_norm(self) -> float:
        import torch

        norms = [p.grad.float().norm() for p in self.model.parameters() if p.grad is not None]
        return float(torch.stack(norms).norm()) if norms else float("nan")


@contextmanager
def single_precision(model: torch.nn.Module) -> Iterator[None]:
    """Weights in float32, and as they were afterwards: half precision survives there and back."""
    import torch

    tensors = [
        t for t in (*model.parameters(), *model.buffers()) if t.dtype in (torch.bfloat16, torch.float16)
    ]
    before = [tensor.dtype for tensor in tensors]
    matmul = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        for tensor in tensors:
            tensor.data = tensor.data.float()
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        for tensor, dtype in zip(tensors, before, strict=True):
            tensor.data = tensor.data.to(dtype)


def _additive(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    import torch

    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)
