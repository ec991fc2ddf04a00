"""A timer that gives back recorded steps: pytest-benchmark then holds the harness's own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_longctx.gpu.record import ArmMeasurement, LengthMeasurement, Record


class Replay:
    """Called before and after each round; the k-th pair of readings is the k-th step's seconds apart."""

    __name__ = "recorded_steps"

    def __init__(self, seconds: Sequence[float]) -> None:
        self._readings = _readings(seconds)

    def __call__(self) -> float:
        """The next reading, in seconds."""
        return next(self._readings)


def _readings(seconds: Sequence[float]) -> Iterator[float]:
    # Each round starts from 0, so that no rounding adds up.
    for step in seconds:
        yield 0.0
        yield step


def items_of(record: Record) -> dict[str, LengthMeasurement | ArmMeasurement]:
    """What was measured, by the names of the workload's items."""
    arms = record.comparison.arms if record.comparison else ()
    return {
        **{f"length_{item.length}": item for item in record.measurements},
        **{arm.name: arm for arm in arms},
    }


def extra_info(record: Record, item: LengthMeasurement | ArmMeasurement) -> dict[str, Any]:
    """What stands beside the times in pytest-benchmark's own JSON: memory, tokens, and where it ran."""
    common = {
        "peak_allocated_bytes": item.peak.allocated_bytes,
        "peak_reserved_bytes": item.peak.reserved_bytes,
        "kernels": list(item.kernels),
        "timed_by": record.execution["clock"],
        "hardware": record.hardware["fingerprint"],
        "workload": record.workload["fingerprint"],
        "mode": record.mode,
        "label": record.label,
    }
    names = ("length", "rows", "processed_tokens", "padding_tokens", "supervised_tokens")
    return {**{name: getattr(item, name) for name in names if hasattr(item, name)}, **common}
