"""What a run knows when it ends, however it ends; and the verdict of what it did not come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_longctx.gpu.workload import items
from pytest_longctx.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_longctx.contract import GpuSection
    from pytest_longctx.gpu.record import (
        BaselineComparison,
        Comparison,
        Failure,
        LengthMeasurement,
        Mode,
        Steps,
    )
    from pytest_longctx.gpu.workload import Workload

GIGABYTE = 1e9  # bytes

_ADVICE = {
    "out_of_memory": "measure shorter lengths or a smaller batch_size, or run on a device with more memory",
    "layout": "mend the packed batch first: its time means nothing while samples run into each other",
    "unavailable": "install or name what is missing; a check that did not run is not a pass",
}


@dataclass(frozen=True)
class Found:
    """The terms of a run and all that it measured."""

    terms: GpuSection
    mode: Mode
    workload: Workload
    measurements: tuple[LengthMeasurement, ...]
    comparison: Comparison | None
    baseline: BaselineComparison | None
    failure: Failure | None

    def steps(self) -> Iterator[tuple[str, Steps]]:
        """Counted steps by the place they were counted at."""
        yield from ((f"length {item.length}", item.steps) for item in self.measurements)
        yield from ((arm.name, arm.steps) for arm in (self.comparison.arms if self.comparison else ()))

    def peaks(self) -> Iterator[tuple[str, int]]:
        """Allocated bytes by the place they were counted at."""
        yield from ((f"length {item.length}", item.peak.allocated_bytes) for item in self.measurements)
        arms = self.comparison.arms if self.comparison else ()
        yield from ((arm.name, arm.peak.allocated_bytes) for arm in arms)

    @property
    def missing(self) -> list[str]:
        """Items of the workload that were not measured."""
        measured = {f"length_{item.length}" for item in self.measurements}
        measured |= {arm.name for arm in (self.comparison.arms if self.comparison else ())}
        return [name for name in items(self.workload) if name not in measured]


def not_measured(name: str, found: Found) -> Verdict:
    """A failed verdict that says why there is nothing to judge."""
    failure = found.failure
    if failure is None:
        return Verdict("failed", f"{name} was not measured", context=tuple(found.missing))
    place = f" at {failure.place}" if failure.place else ""
    headline = f"{name} not measured: {failure.kind.replace('_', ' ')} in stage {failure.stage}{place}"
    return Verdict("failed", clip(headline), context=(failure.message,), advice=_ADVICE.get(failure.kind, ""))


def clip(text: str, width: int = 79) -> str:
    """A first line that is complete in 80 columns."""
    return text if len(text) <= width else text[: width - 1] + "…"
