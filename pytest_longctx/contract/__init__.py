"""YAML text → Contract: the schema, the places of its keys, and what to say of a broken one."""

from __future__ import annotations

from pytest_longctx.contract.dump import dump
from pytest_longctx.contract.load import display_path, load_contract
from pytest_longctx.contract.runs import (
    BaselineSection,
    CurriculumBaseline,
    CurriculumBatch,
    CurriculumLimits,
    CurriculumSection,
    CurriculumStage,
    GpuLimits,
    GpuSection,
    HubModel,
    IsolationLimits,
    IsolationSection,
    RandomModel,
    TrainerMetrics,
    Waiver,
)
from pytest_longctx.contract.schema import Contract, json_schema
from pytest_longctx.contract.section import NamedConfig, Section
from pytest_longctx.contract.sources import (
    DatasetLimits,
    DatasetSection,
    SampleSection,
    SupervisionSection,
    TokenizerSection,
)
from pytest_longctx.contract.stages import (
    InvariantsExcept,
    LengthsLimits,
    LengthsSection,
    MapKwargs,
    PackingLimits,
    PackingSection,
    WindowLimits,
    WindowSection,
)
from pytest_longctx.sections import SECTIONS

__all__ = [
    "SECTIONS",
    "BaselineSection",
    "Contract",
    "CurriculumBaseline",
    "CurriculumBatch",
    "CurriculumLimits",
    "CurriculumSection",
    "CurriculumStage",
    "DatasetLimits",
    "DatasetSection",
    "GpuLimits",
    "GpuSection",
    "HubModel",
    "InvariantsExcept",
    "IsolationLimits",
    "IsolationSection",
    "LengthsLimits",
    "LengthsSection",
    "MapKwargs",
    "NamedConfig",
    "PackingLimits",
    "PackingSection",
    "RandomModel",
    "SampleSection",
    "Section",
    "SupervisionSection",
    "TokenizerSection",
    "TrainerMetrics",
    "Waiver",
    "WindowLimits",
    "WindowSection",
    "display_path",
    "dump",
    "json_schema",
    "load_contract",
]
