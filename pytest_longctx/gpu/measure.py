"""One run from its terms to its record: device, model, length curve, packing; each stage may end it."""

from __future__ import annotations

import gc
import re
import warnings
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import LongctxError, MissingExtraError
from pytest_longctx.gpu import device as devices
from pytest_longctx.gpu.baseline import compare_with
from pytest_longctx.gpu.errors import GpuError, UnavailableError
from pytest_longctx.gpu.found import Found
from pytest_longctx.gpu.record import Failure, Record, complete, reserve
from pytest_longctx.gpu.verdicts import conclude, judge
from pytest_longctx.gpu.workload import plan, workload_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_longctx.contract import GpuSection
    from pytest_longctx.gpu.compare import Comparing
    from pytest_longctx.gpu.device import Device
    from pytest_longctx.gpu.model import Built
    from pytest_longctx.gpu.record import BaselineComparison, LengthMeasurement, Mode
    from pytest_longctx.gpu.training import Instruments, Training
    from pytest_longctx.gpu.workload import Workload

_OUT_OF_MEMORY = re.compile(r"out of memory|not enough memory|can't allocate memory", re.IGNORECASE)


def measure(
    terms: GpuSection,
    mode: Mode,
    *,
    record_path: Path | None = None,
    baseline: Path | None = None,
    label: str | None = None,
    under_xdist: bool = False,
    find_device: Callable[[Mode], Device] = devices.find_device,
    build: Callable[[Workload, Device], Built] | None = None,
    instruments: Instruments | None = None,
) -> Record:
    """Run the section's workload and say what it means.

    A stage that fails ends the run; the record says which one, and every check that it left open has failed.

    Args:
        record_path: where the record goes, also that of a failed or killed run; else none is written.
        baseline: the record that `max_step_time_ratio` compares with, or a folder of records that are named
            by the fingerprint of their hardware; by default none.
        label: by default the record file's name without its ending.
        under_xdist: whether other workers run beside this one; then it is refused.
        find_device, build, instruments: in place of the device's own, for tests.

    Raises:
        GpuError: refused, or the record's label is taken. Nothing has run then.
    """
    if under_xdist:
        raise GpuError(
            "GPU measurements do not run under pytest-xdist, where workers share the device: add -n0 for them"
        )
    run = _Run(terms, mode, baseline, label or (record_path.stem if record_path else mode))
    if record_path is not None:
        reserve(run.record(Failure("started", "interrupted", "the run was ended from outside")), record_path)
    run.carry_out(find_device, build, instruments)
    record = run.record(run.failure)
    if record_path is not None:
        complete(record, record_path)
    return record


class _Run:
    """A run in progress: what it has come to so far, and where it is."""

    def __init__(self, terms: GpuSection, mode: Mode, baseline: Path | None, label: str) -> None:
        self.terms, self.mode, self.baseline, self.label = terms, mode, baseline, label
        self.started = _now()
        self.workload = workload_of(terms, mode)
        self.stage, self.place = "device", ""
        self.failure: Failure | None = None
        self.device: Device | None = None
        self.built: Built | None = None
        self.snapshot: dict[str, str | None] = {}
        self.execution: dict[str, Any] = {}
        self.measurements: list[LengthMeasurement] = []
        self.comparing: Comparing | None = None
        self.compared: BaselineComparison | None = None

    def carry_out(
        self,
        find_device: Callable[[Mode], Device],
        build: Callable[[Workload, Device], Built] | None,
        instruments: Instruments | None,
    ) -> None:
        """All stages, or those before the one that fails; never raises for what fails in a stage."""
        if self.mode == "dry_run":
            return
        training: Training | None = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what libraries say of the model is not about the contract
                self._find(find_device(self.mode))
                training = self._build(build, instruments)
                self._curve(training)
                self._pack(training)
        except Exception as error:  # whatever breaks in a stage, the record says where
            self.failure = _failure(self.stage, self._where(), error)
        finally:
            if training is not None:
                training.close()
            self._release()

    def _find(self, device: Device) -> None:
        dtype, note = devices.supported_dtype(self.terms.dtype, device)
        self.device, self.snapshot = device, devices.snapshot(device)
        self.workload = workload_of(self.terms, self.mode, dtype)
        small = f"a tiny model on a CPU, lengths divided by {self.workload.divided_by}"
        notes = [note, small if self.mode == "cpu" else ""]
        self.execution = {
            "device": device.name,
            "dtype": self.workload.dtype,
            "attention": self.workload.attention,
            "notes": [text for text in notes if text],
        }

    def _build(
        self, build: Callable[[Workload, Device], Built] | None, instruments: Instruments | None
    ) -> Training:
        self.stage = "model"
        from pytest_longctx.gpu.model import build_model
        from pytest_longctx.gpu.training import Instruments, Training

        assert self.device is not None
        read = instruments or Instruments.of(self.device)
        self.execution |= {"clock": read.clock.name, "memory": read.memory.name}
        self.built = (build or build_model)(self.workload, self.device)
        return Training(self.built.model, read)

    def _curve(self, training: Training) -> None:
        from pytest_longctx.gpu.curve import measure_length

        assert self.built is not None
        self.stage = "length_curve"
        for length in self.workload.sequence_lengths:
            self.place = f"{length} tokens"
            self.measurements.append(measure_length(training, self.workload, length, self.built.vocabulary))
        kernels = {name for item in self.measurements for name in item.kernels}
        self.execution["kernels"] = sorted(kernels)
        if self.baseline is not None and self.device is not None:
            versions = devices.versions(self.device)
            self.compared = compare_with(
                self.baseline, self.device, self.workload, self.measurements, versions
            )

    def _pack(self, training: Training) -> None:
        from pytest_longctx.gpu.compare import Comparing

        assert self.built is not None
        assert self.device is not None
        self.stage, self.place = "packing", ""
        self.comparing = Comparing(training, self.workload, self.device, self.built.vocabulary)
        self.comparing.run()
        if self.comparing.offences:
            message = f"{self.comparing.offences} offences against the packing invariants"
            self.failure = Failure("packing", "layout", message, self.comparing.place)

    def _where(self) -> str:
        return self.comparing.place if self.comparing is not None else self.place

    def _release(self) -> None:
        if self.built is not None:
            self.built = replace(self.built, model=None)  # type: ignore[arg-type]
        if self.device is not None and self.device.kind == "cuda":
            import torch

            gc.collect()
            torch.cuda.empty_cache()

    def record(self, failure: Failure | None) -> Record:
        """What the run has come to."""
        comparison = self.comparing.comparison() if self.comparing is not None else None
        measurements = tuple(self.measurements)
        found = Found(self.terms, self.mode, self.workload, measurements, comparison, self.compared, failure)
        checks = judge(found)
        evidence, decision = conclude(self.mode, checks, failure)
        hardware = {} if self.device is None else {**self.device.to_json(), "snapshot": self.snapshot}
        return Record(
            label=self.label,
            mode=self.mode,
            started=self.started,
            ended=_now(),
            versions=devices.versions(self.device),
            hardware=hardware,
            model={"asked": self.terms.model.model_dump(), **(self.built.facts if self.built else {})},
            workload=self.workload.to_json(),
            execution=self.execution,
            plan=plan(self.workload),
            measurements=measurements,
            comparison=comparison,
            baseline=self.compared,
            checks=checks,
            failure=failure,
            evidence=evidence,
            decision=decision,
        )


def _failure(stage: str, place: str, error: Exception) -> Failure:
    text = str(error).strip() or type(error).__name__
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(text):
        return Failure(stage, "out_of_memory", text, place)
    if isinstance(error, UnavailableError | MissingExtraError):
        return Failure(stage, "unavailable", text, place)
    message = text if isinstance(error, LongctxError) else f"{type(error).__name__}: {text}"
    return Failure(stage, "error", message, place)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
