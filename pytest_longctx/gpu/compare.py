"""Padding against boundary-isolated packing of the same samples, in alternation, once their layouts hold."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_longctx.gpu.record import ArmMeasurement, Comparison, LossAgreement, Steps
from pytest_longctx.gpu.samples import arm_batch, check_layout, draw_samples
from pytest_longctx.gpu.training import single_precision
from pytest_longctx.gpu.workload import PACKING, PADDING

if TYPE_CHECKING:
    from pytest_longctx.gpu.device import Device
    from pytest_longctx.gpu.record import Layout
    from pytest_longctx.gpu.samples import ArmBatch
    from pytest_longctx.gpu.training import Step, Training
    from pytest_longctx.gpu.workload import Workload

# Relative difference of two means of the same losses, by the precision in which they were computed.
TOLERANCE = {"float32": 1e-6, "bfloat16": 1e-2, "float16": 2e-3}
FURTHER = {"packing_flex": "flex_attention", "packing_varlen": "flash_attention_2"}


@dataclass
class _Arm:
    """An arm under measurement: its tensors and what was counted."""

    made: ArmBatch
    layout: Layout
    batch: dict[str, Any]
    steps: list[Step] = field(default_factory=list)


class Comparing:
    """The packing stage; `comparison()` is what is known of it at any time."""

    def __init__(self, training: Training, workload: Workload, device: Device, vocabulary: int) -> None:
        self.training, self.workload, self.device = training, workload, device
        self.vocabulary = vocabulary
        self.place = ""
        self.layouts: list[Layout] = []
        self.agreement: dict[str, LossAgreement] = {}
        self.unavailable: dict[str, str] = {}
        self._measured: list[ArmMeasurement] = []
        self._ratios: tuple[float, ...] = ()

    def run(self) -> None:
        """Check layouts and losses, then time and weigh every arm. Stops where a layout is wrong."""
        terms = self.workload
        samples = draw_samples(terms.packing_sample_lengths, terms.batch_size, self.vocabulary, terms.seed)
        made = [arm_batch(name, terms.attention, samples, terms.batch_size) for name in (PADDING, PACKING)]
        for arm in made:
            self.place = arm.name
            self.layouts.append(check_layout(arm, samples, self.vocabulary))
        if self.offences:
            return
        arms = [self._arm(*pair) for pair in zip(made, self.layouts, strict=True)]
        self._losses_agree(arms[0], arms[1])
        for name, attention in self._further().items():
            arm = arm_batch(name, attention, samples, terms.batch_size)
            layout = check_layout(arm, samples, self.vocabulary)
            self.layouts.append(layout)
            if not layout.offences:
                arms += self._tried(arm, layout, self.agreement[PACKING].reference)
        self._alternate(arms)
        self._measured = [self._finish(arm) for arm in arms]
        self.training.use(terms.attention)

    @property
    def offences(self) -> int:
        """Offences against the layout invariants, over all arms."""
        return sum(count for layout in self.layouts for count in layout.offences.values())

    def comparison(self) -> Comparison:
        """What was found so far."""
        return Comparison(
            layouts=tuple(self.layouts),
            agreement=dict(self.agreement),
            arms=tuple(self._measured),
            round_ratios=self._ratios,
            speedup=statistics.median(self._ratios) if self._measured else None,
            unavailable=dict(self.unavailable),
        )

    def _arm(self, made: ArmBatch, layout: Layout) -> _Arm:
        return _Arm(made, layout, self.training.tensors(made.fields, made.attention))

    def _losses_agree(self, padding: _Arm, packing: _Arm) -> None:
        """In float32, whatever the precision of the run: a leak between samples hides in half precision."""
        self.place = "losses of both arms"
        flash = self.workload.attention.startswith("flash")
        dtype = self.workload.dtype if flash else "float32"  # these kernels have no float32
        if flash:
            losses = [self.training.loss(arm.batch) for arm in (padding, packing)]
        else:
            with single_precision(self.training.model):
                losses = [
                    self.training.loss(self._arm(arm.made, arm.layout).batch) for arm in (padding, packing)
                ]
        self.agreement[PACKING] = agreement(losses[1], losses[0], dtype)

    def _further(self) -> dict[str, str]:
        """Arms with other kernels; on a CPU neither has a backward pass."""
        if self.device.kind != "cuda":
            self.unavailable |= dict.fromkeys(FURTHER, "its kernels have no backward pass on a CPU")
            return {}
        return {
            name: attention for name, attention in FURTHER.items() if attention != self.workload.attention
        }

    def _tried(self, made: ArmBatch, layout: Layout, reference: float) -> list[_Arm]:
        """A further arm where it runs; where it does not, the reason is kept and nothing fails."""
        self.place = made.name
        try:
            self.training.use(made.attention)
            arm = self._arm(made, layout)
            loss = self.training.step(arm.batch).loss
        except Exception as error:  # kernels and compilers fail in many ways
            text = " ".join(str(error).split())[:200]
            self.unavailable[made.name] = f"{type(error).__name__}: {text}"
            return []
        finally:
            self.training.use(self.workload.attention)
        self.agreement[made.name] = agreement(loss, reference, self.workload.dtype)
        return [arm]

    def _alternate(self, arms: list[_Arm]) -> None:
        """A B A B …, so that a device that grows warm or slow does so for all arms alike."""
        warmup = self.workload.warmup_steps
        for number in range(warmup + self.workload.repeat_steps):
            for arm in arms:
                self.place = arm.made.name
                self.training.use(arm.made.attention)
                step = self.training.step(arm.batch)
                if number >= warmup:
                    arm.steps.append(step)
        padding, packing = (arm.steps for arm in arms[:2])
        self._ratios = tuple(a.seconds / b.seconds for a, b in zip(padding, packing, strict=True))

    def _finish(self, arm: _Arm) -> ArmMeasurement:
        self.place = arm.made.name
        self.training.use(arm.made.attention)
        steps = steps_of(arm.steps)
        return ArmMeasurement(
            name=arm.made.name,
            attention=arm.made.attention,
            rows=arm.layout.rows,
            processed_tokens=arm.layout.processed_tokens,
            padding_tokens=arm.layout.padding_tokens,
            supervised_tokens=arm.layout.supervised_tokens,
            steps=steps,
            supervised_tokens_per_second=arm.layout.supervised_tokens / steps.median_seconds,
            peak=self.training.peak(arm.batch),
            kernels=self.training.kernels(arm.batch),
        )


def steps_of(steps: list[Step]) -> Steps:
    """Counted steps as columns."""
    return Steps.of(
        [step.seconds for step in steps],
        [step.loss for step in steps],
        [step.gradient_norm for step in steps],
    )


def agreement(loss: float, reference: float, dtype: str) -> LossAgreement:
    """How far a loss is from the reference, relative to it."""
    difference = abs(loss - reference) / abs(reference) if reference else abs(loss)
    return LossAgreement(loss, reference, difference, TOLERANCE[dtype], dtype)
