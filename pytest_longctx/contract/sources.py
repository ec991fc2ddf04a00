"""Where the data comes from: sections `tokenizer`, `dataset`, `supervision`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from pytest_longctx.contract.section import Commit, Count, Fault, Positive, Section, Text, refuse

if TYPE_CHECKING:
    from typing_extensions import Self

Shape = Literal["auto", "messages", "sharegpt", "alpaca", "prompt_completion", "text", "tokenized", "lengths"]
Turns = Literal["all", "last", "completion", "every_token"]

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
FILE_ENDING = re.compile(r"\.(jsonl|ndjson|json|parquet|arrow|txt|csv|model|jinja|gz|zst)$", re.IGNORECASE)
PACKAGE = re.compile(r"package:[a-z0-9_]+")


def looks_like_hub_id(path: str) -> bool:
    """`org/name`, without a glob character or the ending of a data file."""
    return HUB_ID.fullmatch(path) is not None and FILE_ENDING.search(path) is None


def _is_here(path: str, info: ValidationInfo) -> bool:
    """Whether the path exists beside the contract; without a contract file, nothing does."""
    folder = (info.context or {}).get("folder")
    return folder is not None and (folder / path).exists()


def _unpinned(path: str) -> Fault:
    return Fault(
        ("path",),
        f"found {path!r}: there is no such path beside the contract, and a Hub id needs "
        "revision: (the commit, 40 hexadecimal digits)",
    )


def _local_with_revision(path: str) -> Fault:
    return Fault(
        ("revision",), f"a revision pins a Hub id (org/name), but path {path!r} is not one: leave it out"
    )


class TokenizerSection(Section):
    """The tokenizer and chat template that the training run uses."""

    path: Text = Field(
        description="Folder relative to the contract; `package:NAME` for the folder of an installed Python "
        "package that ships tokenizer files; or a Hub id together with `revision`."
    )
    revision: Commit | None = Field(None, description="Commit of a Hub id, 40 hexadecimal digits.")
    chat_template: Text | None = Field(
        None,
        description="Template file; `trl:NAME` names one that TRL ships. Default: the tokenizer's own.",
    )
    template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="Variables passed to the template, as the trainer passes them."
    )
    fingerprint: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = Field(
        None, description="Pin over tokenizer files, template and kwargs: `sha256:` and 64 hex digits."
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
        refuse(self._faults(info))
        return self

    def _faults(self, info: ValidationInfo) -> list[Fault]:
        if self.path.startswith("package:"):
            if self.package is None:
                return [
                    Fault(
                        ("path",),
                        f"found {self.path!r}, expected package:NAME, a top-level package name "
                        "of small letters, digits and _",
                    )
                ]
            return [_local_with_revision(self.path)] if self.hub else []
        if not looks_like_hub_id(self.path):
            # Old Hub ids have no organisation: `gpt2`.
            plain = re.fullmatch(r"[A-Za-z0-9][\w.-]*", self.path, re.ASCII)
            return [_local_with_revision(self.path)] if self.hub and not plain else []
        return [] if self.hub or _is_here(self.path, info) else [_unpinned(self.path)]


class SampleSection(Section):
    """A random part of the rows; ratios are then reported with their interval."""

    rows: Positive = Field(description="Number of rows drawn.")
    seed: Count = Field(0, description="Seed of the draw.")


class DatasetLimits(Section):
    """Rows that may offend, per check of the dataset."""

    content_survives: Count = Field(0, description="Rows whose assistant text may be lost in rendering.")
    control_tokens: Count = Field(0, description="Rows whose text may hold special tokens.")
    arrow_round_trip: Count = Field(0, description="Rows whose ids may change in an Arrow round trip.")


class DatasetSection(Section):
    """The rows."""

    path: Text | Annotated[list[Text], Field(min_length=1)] = Field(
        description="Files (.jsonl .json .parquet .arrow, text ones also .gz .zst), globs or folders relative "
        "to the contract; or one Hub id together with `revision` and `split`."
    )
    revision: Commit | None = Field(None, description="Commit of a Hub id, 40 hexadecimal digits.")
    split: Text | None = Field(None, description="Split of a Hub id.")
    config: Text | None = Field(None, description="Configuration name of a Hub id.")
    shape: Shape = Field("auto", description="Shape of the rows; `auto` recognises it and says so.")
    columns: dict[str, Text] = Field(
        default_factory=dict, description="The shape's column name → the name in the data."
    )
    id: Text | None = Field(None, description="Column with the row id. Default: `file:row`.")
    slices: Text | None = Field(None, description="Column; every limit also holds per value of it.")
    sample: SampleSection | None = Field(None, description="Look at a random part of the rows only.")
    exhaustive: bool = Field(False, description="Run the costly checks on every row.")
    limits: DatasetLimits = Field(default_factory=DatasetLimits, description="Rows that may offend.")

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
            keys = [key for key in ("revision", "split", "config") if getattr(self, key) is not None]
            return [Fault((key,), "belongs to one Hub id, but path is a list") for key in keys]
        if self.hub:
            if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", self.path, re.ASCII) or self.path.startswith("."):
                return [_local_with_revision(self.path)]
            missing = Fault(("split",), "missing: a Hub id needs the split, for example split: train")
            return [] if self.split else [missing]
        named = self.split is not None or self.config is not None
        if named or (looks_like_hub_id(self.path) and not _is_here(self.path, info)):
            return [self._unpinned_or_local(info)]
        return []

    def _unpinned_or_local(self, info: ValidationInfo) -> Fault:
        if looks_like_hub_id(self.path) and not _is_here(self.path, info):  # type: ignore[arg-type]
            return _unpinned(str(self.path))
        key = "split" if self.split is not None else "config"
        return Fault((key,), f"belongs to a Hub id with its revision; path {self.path!r} is a local path")


class SupervisionSection(Section):
    """Which tokens the loss is taken over."""

    turns: Turns = Field("all", description="Assistant turns that are supervised.")
    marker: Text | Annotated[list[Text], Field(min_length=1)] | None = Field(
        None, description="Response marker, for trainers that mask by marker."
    )
    message_weight: Text | None = Field(None, description="Key of a message that holds its loss weight.")

    @model_validator(mode="after")
    def _rules(self) -> Self:
        if self.turns == "every_token" and self.marker is not None:
            refuse([Fault(("marker",), "contradicts turns: every_token, which masks nothing")])
        return self
