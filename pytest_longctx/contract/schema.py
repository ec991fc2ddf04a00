"""The contract as a whole: the one source of the loader, the JSON Schema and the reference."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from pytest_longctx.contract import runs, sources, stages
from pytest_longctx.contract.messages import show
from pytest_longctx.contract.section import Fault, Section, Text, refuse
from pytest_longctx.contract.yaml import Document
from pytest_longctx.sections import CUSTOM, SECTIONS

if TYPE_CHECKING:
    from typing_extensions import Self


class Contract(Section):
    """A data contract for long-context SFT."""

    contract: Literal[1] = Field(description="Version of the format; the first key of the file.")
    name: Text | None = Field(default=None, description="Name in reports. Default: the file's name.")
    description: Text | None = Field(default=None, description="What the data is for.")
    tokenizer: sources.TokenizerSection | None = Field(
        default=None,
        description="The tokenizer and chat template; only rows of shape lengths do without.",
    )
    dataset: sources.DatasetSection = Field(description="The rows.")
    supervision: sources.SupervisionSection = Field(
        default=sources.SupervisionSection(), description="Which tokens the loss is taken over."
    )
    lengths: stages.LengthsSection | None = Field(default=None, description="Limits on the sample lengths.")
    window: stages.WindowSection | None = Field(default=None, description="What each sample must fit.")
    packing: stages.PackingSection | None = Field(default=None, description="How samples become packed rows.")
    isolation: runs.IsolationSection | None = Field(default=None, description="The attention probe.")
    curriculum: runs.CurriculumSection | None = Field(default=None, description="Stages of growing windows.")
    gpu: runs.GpuSection | None = Field(default=None, description="The workload measured on a GPU.")
    baseline: runs.BaselineSection | None = Field(
        default=None, description="How far metrics may move from main."
    )
    waivers: list[runs.Waiver] = Field(default_factory=list, description="Checks that may fail until a day.")

    _path: Path = PrivateAttr(default=Path())
    _display: str = PrivateAttr(default="")
    _sha256: str = PrivateAttr(default="")
    _document: Document = PrivateAttr(default=Document())

    @property
    def path(self) -> Path:
        """Absolute path of the file; symlinks are kept."""
        return self._path

    @property
    def display(self) -> str:
        """The path in messages: relative to the working folder when below it."""
        return self._display

    @property
    def sha256(self) -> str:
        """SHA-256 of the file's bytes, in hexadecimal."""
        return self._sha256

    @property
    def max_tokens_per_bin(self) -> int | None:
        """Capacity of a packed row in tokens; the window's where packing does not say."""
        own = self.packing.max_tokens_per_bin if self.packing else None
        return own or (self.window.target_context_len if self.window else None)

    def line(self, *key: str | int) -> int:
        """Line of a key path from 1, or of the nearest parent that the file has."""
        return self._document.key(key).line

    def resolve(self, relative: str) -> Path:
        """A path of the contract, relative to the contract's folder."""
        return Path(os.path.normpath(self._path.parent / relative))

    @field_validator(
        "lengths", "window", "packing", "isolation", "curriculum", "gpu", "baseline", mode="before"
    )
    @classmethod
    def _filled(cls, section: Any) -> Any:
        """An empty section would silently make no checks."""
        if section is None:
            raise PydanticCustomError("expected", "{expected}", {"expected": "its keys, or no such section"})
        return section

    @model_validator(mode="after")
    def _rules(self) -> Self:
        rules = (_lengths_faults, _packing_faults, _isolation_faults, _check_faults)
        refuse(fault for rule in rules for fault in rule(self))
        return self


class Draft(Contract):
    """A contract whose broken sections were left out, so that the rules between the others still apply."""

    dataset: sources.DatasetSection | None = None  # type: ignore[assignment]


def _lengths_faults(contract: Contract) -> list[Fault]:
    """Thresholds alone make no check; a curriculum shows the mix of lengths by them."""
    lengths = contract.lengths
    if lengths is None or contract.curriculum is not None:
        return []
    if any(value is not None for limits in (lengths.limits, lengths.warn) for _, value in limits):
        return []
    message = "sets no limit, so nothing is checked: set one in limits or warn, or leave the section out"
    return [Fault(("lengths",), message)]


def _isolation_faults(contract: Contract) -> list[Fault]:
    if contract.isolation is None or contract.packing is not None:
        return []
    return [Fault(("isolation",), "needs the section packing: its collator or trainer makes the batches")]


def _packing_faults(contract: Contract) -> list[Fault]:
    packing, window = contract.packing, contract.window
    if packing is None:
        return []
    faults = []
    if contract.dataset is not None and contract.dataset.shape == "lengths":
        message = "packing needs token ids, but dataset.shape is lengths: leave the section out"
        faults.append(Fault(("packing",), message))
    capacity = contract.max_tokens_per_bin
    if capacity is None:
        message = "missing: give it here, or window.target_context_len"
        faults.append(Fault(("packing", "max_tokens_per_bin"), message))
    elif window is not None and capacity < window.target_context_len:
        message = (
            f"found {capacity}, expected at least window.target_context_len {window.target_context_len}: "
            "an admitted sample might fit no packed row"
        )
        faults.append(Fault(("packing", "max_tokens_per_bin"), message))
    return faults


def _check_faults(contract: Contract) -> list[Fault]:
    """Checks named by waivers and baseline whose section no contract can have."""
    metrics = contract.baseline.max_regression if contract.baseline else {}
    named: list[tuple[tuple[str | int, ...], str]] = [
        *((("baseline", "max_regression", name), name.partition("::")[0]) for name in metrics),
        *((("waivers", place, "check"), waiver.section) for place, waiver in enumerate(contract.waivers)),
    ]
    known = (*SECTIONS, CUSTOM)
    expected = f"expected one of {', '.join(known)}"
    return [Fault(key, f"found {show(name)}, {expected}") for key, name in named if name not in known]


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a contract, for editors."""
    schema = Contract.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
