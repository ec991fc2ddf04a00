"""What is run on models: sections `isolation`, `curriculum`, `gpu`; and `baseline`, `waivers`."""

from __future__ import annotations

import datetime as dt
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from pytest_longctx.contract.section import (
    Amount,
    Commit,
    Count,
    Fault,
    Name,
    Positive,
    Ratio,
    Section,
    Text,
    Window,
    refuse,
)

if TYPE_CHECKING:
    from typing_extensions import Self

Attention = Literal["eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3"]
Precision = Literal["float32", "bfloat16", "float16"]


class IsolationLimits(Section):
    """How far numerics may differ."""

    max_logit_difference: Amount = Field(
        default=1e-5,
        description="Largest difference of logits, divided by the largest logit if that is above 1.",
    )
    max_loss_difference: Amount = Field(
        default=1e-4, description="Largest difference of losses, in nats per token."
    )


class IsolationSection(Section):
    """The attention probe: do the segments of a packed row see each other?"""

    model: Text = Field(
        default="qwen2",
        description="A transformers architecture, built tiny; a folder; or a Hub id, with `revision`.",
    )
    revision: Commit | None = Field(default=None, description="Commit of a Hub id, 40 hexadecimal digits.")
    weights: bool = Field(default=False, description="Load the folder's weights instead of random ones.")
    attention: Annotated[list[Attention], Field(min_length=1)] = Field(
        default=["eager", "sdpa"], description="Attention implementations probed."
    )
    forward: dict[str, Any] = Field(
        default_factory=dict,
        description="What the training step passes to the model. With the trainers `trl_sft` and "
        "`transformers` `use_cache` is as they set it, which is false, unless it stands here.",
    )
    dtype: Precision = Field(default="float32", description="Precision of the probe.")
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="Device of the probe.")
    seed: Count = Field(default=42, description="Seed of weights and samples.")
    limits: IsolationLimits = Field(default=IsolationLimits(), description="Limits that fail.")

    @model_validator(mode="after")
    def _rules(self) -> Self:
        refuse(_repeated(("attention",), self.attention))
        return self


def _repeated(key: tuple[str, ...], values: list[Any]) -> list[Fault]:
    return [
        Fault((*key, place), f"found {value!r} again, expected each once")
        for place, value in enumerate(values)
        if value in values[:place]
    ]


class TrainerMetrics(Section):
    """Metrics put together from a Hugging Face run and an evaluation."""

    trainer_state: Text = Field(description="The run's trainer_state.json.")
    eval: Text = Field(description="Evaluation JSON: lm-evaluation-harness, or a flat mapping.")
    map: dict[str, Text] = Field(description="Metric of the gate → its path in the files.")


Metrics = Text | TrainerMetrics


class CurriculumBatch(Section):
    """What an optimizer step holds."""

    rows_per_device: Positive = Field(default=1, description="Packed rows per device and forward pass.")
    gradient_accumulation: Positive = Field(default=1, description="Forward passes per optimizer step.")
    devices: Positive = Field(default=1, description="Data-parallel devices.")


class CurriculumBaseline(Section):
    """The run that the first stage is compared with."""

    name: Name | None = Field(default=None, description="Name in messages.")
    target_context_len: Window | None = Field(
        default=None, description="Its window, in tokens. Default: what its metrics say."
    )
    metrics: Metrics = Field(description="JSON file with the metrics, or where to find them.")


class CurriculumStage(Section):
    """A step of the length curriculum, compared with the one before it."""

    name: Name = Field(description="Part of the test's name.")
    target_context_len: Window = Field(description="The stage's window, in tokens.")
    metrics: Metrics = Field(description="JSON file with the metrics, or where to find them.")
    batch: CurriculumBatch | None = Field(
        default=None, description="The stage's own optimizer step. Default: curriculum.batch."
    )


class CurriculumLimits(Section):
    """The numbers of the gates; every gate needs its own."""

    min_long_context_gain: float = Field(description="Least rise of the long-context score.")
    max_short_context_regression: Annotated[float, Field(ge=0)] = Field(
        description="Greatest fall of the short-context score."
    )
    max_failed_runs: Count = Field(description="Runs that may have failed.")
    max_peak_memory_gb: Amount = Field(description="Greatest peak memory, in GB.")
    max_cost_per_supervised_token: Amount = Field(description="Greatest cost, in the metrics' unit.")


class CurriculumSection(Section):
    """Stages of growing windows, each with its gates."""

    baseline: CurriculumBaseline = Field(description="The run before the first stage.")
    stages: Annotated[list[CurriculumStage], Field(min_length=1)] = Field(description="In order.")
    batch: CurriculumBatch | None = Field(
        default=None, description="Needed to measure the token budget from the packed rows."
    )
    token_budget_tolerance: Ratio = Field(
        default=0.05,
        description="Allowed relative difference of the measured token budget from the claimed one.",
    )
    limits: CurriculumLimits = Field(description="Limits of the gates.")

    @model_validator(mode="after")
    def _rules(self) -> Self:
        names = [stage.name for stage in self.stages]
        faults = _repeated(("stages",), names)
        refuse(Fault((*fault.key, "name"), fault.message) for fault in faults)
        return self


class HubModel(Section):
    """A model on the Hub at a commit."""

    id: Text = Field(description="Hub id.")
    revision: Commit = Field(description="Commit, 40 hexadecimal digits.")


class RandomModel(Section):
    """A model with random weights; needs no download."""

    architecture: Text = Field(description="A transformers architecture.")
    size: Text = Field(description="Size of the model, for example `0.5b` or `tiny`.")
    init: Literal["random"] = Field(default="random", description="Random weights.")
    seed: Count = Field(default=42, description="Seed of the weights.")


class GpuLimits(Section):
    """Limits on what was measured."""

    max_peak_memory_gb: Amount | None = Field(default=None, description="Greatest allocated memory, in GB.")
    min_packing_speedup: Amount | None = Field(default=None, description="Throughput of packing / padding.")
    max_step_time_ratio: Amount | None = Field(default=None, description="Median step time / the baseline's.")


def _default_model() -> HubModel:
    return HubModel(id="Qwen/Qwen2.5-0.5B", revision="060db6499f32faf8b98477b0a26969ef7d8b9987")


class GpuSection(Section):
    """The workload that is measured on a GPU."""

    model: HubModel | RandomModel = Field(
        default_factory=_default_model,
        description="A model of the Hub, downloaded unless it lies in the Hub's local cache; or one with "
        "random weights, by `architecture` and `size`, which needs no download.",
    )
    sequence_lengths: Annotated[list[Window], Field(min_length=1)] = Field(
        default=[128, 256, 512], description="Lengths measured, strictly increasing."
    )
    packing_sample_lengths: Annotated[list[Window], Field(min_length=2)] = Field(
        default=[48, 96, 32, 64], description="Samples for packing against padding."
    )
    batch_size: Positive = Field(default=1, description="Rows per step.")
    warmup_steps: Count = Field(default=2, description="Steps that are not counted.")
    repeat_steps: Positive = Field(default=10, description="Steps that are counted.")
    attention: Attention = Field(default="sdpa", description="Attention implementation.")
    dtype: Precision = Field(
        default="bfloat16", description="Precision; float16 where bfloat16 is not supported."
    )
    seed: Count = Field(default=42, description="Seed of the samples.")
    memory_trend_tolerance: Ratio = Field(
        default=0.005, description="Share by which memory may fall from one length to the next."
    )
    baseline: Text | None = Field(default=None, description="Record that max_step_time_ratio compares with.")
    limits: GpuLimits = Field(default=GpuLimits(), description="Limits that fail.")

    @model_validator(mode="after")
    def _rules(self) -> Self:
        faults = []
        for place, (shorter, longer) in enumerate(pairwise([1, *self.sequence_lengths])):
            if longer <= shorter:
                message = f"found {longer}, expected more than {shorter}: lengths increase strictly from 2"
                faults.append(Fault(("sequence_lengths", place), message))
        for place, length in enumerate(self.packing_sample_lengths):
            if length < 2:
                message = f"found {length}, expected at least 2: one token alone is never a target"
                faults.append(Fault(("packing_sample_lengths", place), message))
        refuse(faults)
        return self


CHECK = r"^[a-z]+::[a-z0-9_]+(::[^\s]+)?$"


class BaselineSection(Section):
    """How far metrics may move from the report that `--longctx-baseline` names."""

    max_regression: dict[str, Annotated[float, Field(ge=0)]] = Field(
        min_length=1,
        description="`section::check` → how much worse its measured value may be, in the value's own unit. "
        "A value that is better by more than this is told, so that the baseline is renewed.",
    )

    @model_validator(mode="after")
    def _rules(self) -> Self:
        expected = "section::check, as in the node id"
        refuse(
            Fault(("max_regression", name), f"found text {name[:80]!r}, expected {expected}")
            for name in self.max_regression
            if not re.fullmatch(CHECK, name)
        )
        return self


def _date(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            pass
    raise PydanticCustomError("expected", "{expected}", {"expected": "a date such as 2027-01-31"})


class Waiver(Section):
    """A check that may fail until a day."""

    check: Annotated[str, Field(pattern=CHECK)] = Field(
        description="`section::check`, or `section::check::slice`, as in the node id. A check's waiver does "
        "not cover its slices."
    )
    until: Annotated[dt.date, BeforeValidator(_date, json_schema_input_type=str)] = Field(
        description="Last day on which it holds, YYYY-MM-DD."
    )
    reason: Text = Field(description="Why; stands in the report.")
    ticket: Text | None = Field(default=None, description="Where it is tracked.")

    @property
    def section(self) -> str:
        """The section that the check belongs to."""
        return self.check.partition("::")[0]
