"""The length curve: steps on full rows of one length after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.gpu.compare import steps_of
from pytest_longctx.gpu.record import LengthMeasurement
from pytest_longctx.gpu.samples import random_rows

if TYPE_CHECKING:
    from pytest_longctx.gpu.training import Training
    from pytest_longctx.gpu.workload import Workload


def measure_length(training: Training, workload: Workload, length: int, vocabulary: int) -> LengthMeasurement:
    """Warm up, count steps, then measure memory and look at the kernels in passes of their own."""
    rows = workload.batch_size
    fields = random_rows(rows, length, vocabulary, workload.seed)
    batch = training.tensors(fields, workload.attention)
    for _ in range(workload.warmup_steps):
        training.step(batch)
    steps = steps_of([training.step(batch) for _ in range(workload.repeat_steps)])
    return LengthMeasurement(
        length=length,
        rows=rows,
        steps=steps,
        seconds_per_token=steps.median_seconds / (rows * length),
        peak=training.peak(batch),
        kernels=training.kernels(batch),
    )
