"""Where the data comes from: sections `tokenizer`, `dataset`, `supervision`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from pytest_longctx.contract.messages import show
from pytest_longctx.contract.section import Commit, Count, Fault, Positive, Section, Text, refuse

if TYPE_CHECKING:
    from typing_extensions import Self

Shape = Literal["auto", "messages", "sharegpt", "alpaca", "prompt_completion", "text", "tokenized", "lengths"]
Turns = Literal["all", "last", "completion", "every_token"]

HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
FILE_ENDING = re.compile(r"\.(jsonl|ndjson|json|parquet|arrow|txt|csv|model|jinja|gz|zst)$", re.IGNORECASE)
PACKAGE = re.compile(r"package:[a-z0-9_]+")


def looks_like_hub_id(path: str) -> bool:
    """`org/name`, or `name` alone as old ids are, without the ending of a data file."""
    return len(path) <= 200 and HUB_ID.fullmatch(path) is not None and FILE_ENDING.search(path) is None


def _hub_faults(section: TokenizerSection | DatasetSection, path: str, info: ValidationInfo) -> list[Fault]:
    """A Hub id needs its commit, and only a Hub id has one."""
    pins = [key for key in ("revision", "split", "config") if getattr(section, key, None) is not None]
    if not looks_like_hub_id(path):
        message = f"belongs to a Hub id (org/name), but path is {show(path)}: leave it out"
        return [Fault((pin,), message) for pin in pins]
    if "revision" in pins or (not pins and ("/" not in path or _is_here(path, info))):
        return []
    message = (
        f"found {show(path)}: there is no such path beside the contract, and a Hub id needs "
        "revision: its commit, 40 hexadecimal digits"
    )
    return [Fault(("path",), message)]


def _is_here(path: str, info: ValidationInfo) -> bool:
    """Whether the path exists beside the contract; without a contract file, nothing does."""
    folder = (info.context or {}).get("folder")
    return folder is not None and (folder / path).exists()


class TokenizerSection(Section):
    """The tokenizer and chat template that the training run uses."""

    path: Text = Field(
        description="Folder relative to the contract; `package:NAME` for the folder of an installed Python "
        "package that ships tokenizer files; or a Hub id together with `revision`."
    )
    revision: Commit | None = Field(default=None, description="Commit of a Hub id, 40 hexadecimal digits.")
    chat_template: Text | None = Field(
        default=None,
        description="Template file; `trl:NAME` names one that TRL ships. Default: the tokenizer's own, and "
        "its `tool_use` for rows with tools where it has one.",
    )
    template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="Variables passed to the template, as the trainer passes them."
    )
    fingerprint: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = Field(
        default=None,
        description="Pin over tokenizer files, template and kwargs: `sha256:` and 64 hex digits. Vocabulary "
        "and merges beside tokenizer.json count, and the model type in config.json.",
    )

    @property
    def package(self) -> str | None:
        """The Python package named by `package:NAME`."""
        return self.path.removeprefix("package:") if PACKAGE.fullmatch(self.path) else None

    @property
    def hub(self) -> bool:
        """Whether `path` is a Hub id."""
        return self.revision is not None

    @model_validator(mode="after")
    def _rules(self, info: ValidationInfo) -> Self:
        refuse([*self._package_faults(), *_hub_faults(self, self.path, info)])
        return self

    def _package_faults(self) -> list[Fault]:
        if not self.path.startswith("package:") or self.package is not None:
            return []
        expected = "package: and a top-level package name of small letters, digits and _"
        return [Fault(("path",), f"found {show(self.path)}, expected {expected}")]


class SampleSection(Section):
    """A random part of the rows; ratios are then reported with their interval."""

    rows: Positive = Field(description="Number of rows drawn.")
    seed: Count = Field(default=0, description="Seed of the draw.")


class DatasetLimits(Section):
    """Rows that may offend, per check of the dataset."""

    content_survives: Count = Field(
        default=0,
        description="Rows that may lose assistant text, or another message or a tool whole, in rendering, or "
        "stop in their reasoning.",
    )
    control_tokens: Count = Field(default=0, description="Rows whose text may hold special tokens.")
    arrow_round_trip: Count = Field(
        default=0, description="Rows whose ids may change in an Arrow round trip."
    )


class DatasetSection(Section):
    """The rows."""

    path: Text | Annotated[list[Text], Field(min_length=1)] = Field(
        description="Files (.jsonl .json .parquet .arrow, text ones also .gz .zst), globs or folders, "
        "relative to the contract; or one Hub id together with `revision` and `split`."
    )
    revision: Commit | None = Field(default=None, description="Commit of a Hub id, 40 hexadecimal digits.")
    split: Text | None = Field(default=None, description="Split of a Hub id.")
    config: Text | None = Field(default=None, description="Configuration name of a Hub id.")
    shape: Shape = Field(default="auto", description="Shape of the rows; `auto` recognises it and says so.")
    columns: dict[str, Text] = Field(
        default_factory=dict, description="The shape's column name → the name in the data."
    )
    id: Text | None = Field(default=None, description="Column with the row id. Default: `file:row`.")
    slices: Text | None = Field(
        default=None,
        description="Column; each limit of `lengths` and `window` holds for the rows of every value, too.",
    )
    sample: SampleSection | None = Field(default=None, description="Look at a random part of the rows only.")
    exhaustive: bool = Field(default=False, description="Run the costly checks on every row.")
    limits: DatasetLimits = Field(default=DatasetLimits(), description="Rows that may offend.")

    @property
    def hub(self) -> bool:
        """Whether `path` is a Hub id."""
        return self.revision is not None

    @model_validator(mode="after")
    def _rules(self, info: ValidationInfo) -> Self:
        refuse(self._faults(info))
        return self

    def _faults(self, info: ValidationInfo) -> list[Fault]:
        if isinstance(self.path, list):
            pins = [key for key in ("revision", "split", "config") if getattr(self, key) is not None]
            return [Fault((pin,), "belongs to one Hub id, but path is a list: leave it out") for pin in pins]
        faults = _hub_faults(self, self.path, info)
        if self.hub and not faults and self.split is None:
            faults.append(Fault(("split",), "missing: a Hub id needs its split, for example split: train"))
        return faults


class SupervisionSection(Section):
    """Which tokens the loss is taken over."""

    turns: Turns = Field(
        default="all",
        description="What is supervised: assistant turns, all or the last; the completion of a prompt; or "
        "every token, where nothing is masked.",
    )
    marker: Text | Annotated[list[Text], Field(min_length=1)] | None = Field(
        default=None, description="Response marker, for trainers that mask by marker."
    )
    message_weight: Text | None = Field(
        default=None,
        description="Key of a message that holds its loss weight. Where none is named, messages with "
        "`weight`, `train` or `loss_weight` warn; so do those with a number or bool under `training`, "
        "`trainable`, `train_on_turn`, `learn`, `loss`, `loss_mask` or `mask`.",
    )

    @model_validator(mode="after")
    def _rules(self) -> Self:
        if self.turns == "every_token" and self.marker is not None:
            refuse([Fault(("marker",), "contradicts turns: every_token, which masks nothing")])
        return self
