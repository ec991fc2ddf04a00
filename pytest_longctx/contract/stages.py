"""What happens to the samples: sections `lengths`, `window`, `packing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from pytest_longctx.contract.section import (
    Fault,
    Named,
    NamedConfig,
    Positive,
    Ratio,
    Section,
    Text,
    Tokens,
    Window,
    limit_faults,
    refuse,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class LengthsLimits(Section):
    """Limits on the distribution of sample lengths, in tokens; percentiles are nearest-rank."""

    max_tokens: Tokens | None = Field(default=None, description="Longest sample.")
    max_p50_tokens: Tokens | None = Field(default=None, description="Median length.")
    max_p95_tokens: Tokens | None = Field(default=None, description="95th percentile of the lengths.")
    min_long_share: Ratio | None = Field(default=None, description="Share of samples above long_threshold.")
    max_long_share: Ratio | None = Field(default=None, description="Share of samples above long_threshold.")
    min_short_share: Ratio | None = Field(default=None, description="Share of samples up to short_threshold.")
    max_short_share: Ratio | None = Field(default=None, description="Share of samples up to short_threshold.")


class LengthsSection(Section):
    """Short, medium and long samples."""

    short_threshold: Tokens = Field(description="Samples up to this many tokens are short.")
    long_threshold: Tokens = Field(description="Samples above this many tokens are long.")
    limits: LengthsLimits = Field(default=LengthsLimits(), description="Limits that fail.")
    warn: LengthsLimits = Field(default=LengthsLimits(), description="The same keys; these warn.")

    @model_validator(mode="after")
    def _rules(self) -> Self:
        faults = limit_faults(self.limits, self.warn)
        if self.short_threshold > self.long_threshold:
            message = f"found {self.short_threshold}, expected at most long_threshold {self.long_threshold}"
            faults.append(Fault(("short_threshold",), message))
        for where in ("limits", "warn"):
            faults += self._shares(where, getattr(self, where))
        refuse(faults)
        return self

    @staticmethod
    def _shares(where: str, limits: LengthsLimits) -> list[Fault]:
        short, long = limits.min_short_share, limits.min_long_share
        if short is None or long is None or short + long <= 1:
            return []
        return [Fault((where, "min_short_share"), f"{short} and min_long_share {long} add up to more than 1")]


class WindowLimits(Section):
    """Limits on what the window costs."""

    max_overflow_ratio: Ratio | None = Field(default=None, description="Share of samples that are rejected.")
    max_truncated_ratio: Ratio | None = Field(default=None, description="Share of samples that are cut.")
    min_kept_supervision_ratio: Ratio | None = Field(
        default=None, description="Share of supervised tokens kept."
    )
    min_kept_turn_ratio: Ratio | None = Field(default=None, description="Share of supervised turns kept.")


class WindowSection(Section):
    """The token capacity that each sample must fit, and what may be cut."""

    target_context_len: Window = Field(description="The window, in tokens.")
    min_kept_supervised_tokens: Tokens = Field(
        default=1, description="A cut sample keeps at least so many supervised tokens, else it overflows."
    )
    max_supervision_loss_ratio: Ratio = Field(
        default=0.0,
        description="A cut sample loses at most this share of its supervised tokens, else it overflows.",
    )
    limits: WindowLimits = Field(default=WindowLimits(), description="Limits that fail.")
    warn: WindowLimits = Field(default=WindowLimits(), description="The same keys; these warn.")

    @model_validator(mode="after")
    def _rules(self) -> Self:
        faults = limit_faults(self.limits, self.warn)
        kept, window = self.min_kept_supervised_tokens, self.target_context_len
        if kept > window:
            message = f"found {kept}, expected at most target_context_len {window}: no sample could be kept"
            faults.append(Fault(("min_kept_supervised_tokens",), message))
        refuse(faults)
        return self


Invariant = Literal[
    "capacity",
    "sample_conservation",
    "token_order",
    "labels_preserved",
    "position_ids",
    "boundary_labels",
    "cumulative_boundaries",
    "sequence_indices",
    "varlen_fields",
    "aligned_fields",
    "mask_agrees",
    "padding_segment",
    "supervision_per_row",
    "orphan_fragments",
    "target_count",
    "effective_window",
    "index_range",
]


class InvariantsExcept(Section):
    """All invariants but some, with the reason."""

    exempt: Annotated[list[Invariant], Field(min_length=1)] = Field(
        alias="except", description="Invariants that are not checked."
    )
    reason: Text = Field(description="Why they are not checked; stands in the report.")


class MapKwargs(Section):
    """How the trainer maps its packer over the rows."""

    batch_size: Positive | None = Field(default=None, description="Rows handed to the packer at once.")
    num_proc: Positive | None = Field(default=None, description="Processes that pack, each its own part.")


class PackingLimits(Section):
    """Limits on how well the rows are filled."""

    min_utilization: Ratio | None = Field(default=None, description="Tokens / (rows × max_tokens_per_bin).")
    max_rows_over_bound: Annotated[float, Field(ge=1)] | None = Field(
        default=None, description="Rows / ceil(tokens / max_tokens_per_bin)."
    )
    max_rows_over_optimal: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Rows above the L2 lower bound."
    )
    max_padding_ratio: Ratio | None = Field(default=None, description="Padding / all tokens of the batches.")


class PackingSection(Section):
    """How samples become packed rows and batches."""

    max_tokens_per_bin: Window | None = Field(
        default=None, description="Capacity of a packed row. Default: window.target_context_len."
    )
    packer: Named = Field(default=NamedConfig(name="ffd"), description="Packer by name, or with its config.")
    collator: Named = Field(
        default=NamedConfig(name="block_mask"),
        description="Collator by name, or with its config.",
    )
    trainer: Named | None = Field(default=None, description="Trainer whose own dataloader is checked.")
    batch_size: Positive = Field(default=1, description="Packed rows per batch.")
    feed: Literal["admitted", "all"] | None = Field(
        default=None, description="Samples that are packed. Default: admitted for packers, all for trainers."
    )
    map_kwargs: MapKwargs = Field(default=MapKwargs(), description="The trainer's dataset map.")
    row_stride: Positive | None = Field(
        default=None,
        description="Elements a token takes in the widest tensor that a kernel indexes with 32 bits.",
    )
    invariants: Literal["all"] | Annotated[list[Invariant], Field(min_length=1)] | InvariantsExcept = Field(
        default="all", description="`all`, a list, or `{except: […], reason: …}`."
    )
    limits: PackingLimits = Field(default=PackingLimits(), description="Limits that fail.")
    warn: PackingLimits = Field(default=PackingLimits(), description="The same keys; these warn.")

    @property
    def feed_mode(self) -> Literal["admitted", "all"]:
        """What is fed, with the default filled in."""
        return self.feed or ("all" if self.trainer else "admitted")

    def wants(self, invariant: str) -> bool:
        """Whether the contract asks for this invariant."""
        if isinstance(self.invariants, InvariantsExcept):
            return invariant not in self.invariants.exempt
        return self.invariants == "all" or invariant in self.invariants

    @model_validator(mode="after")
    def _rules(self) -> Self:
        refuse([*self._ignored(), *limit_faults(self.limits, self.warn)])
        return self

    def _ignored(self) -> list[Fault]:
        """TRL's trainer packs and collates by its own config."""
        if self.trainer is None or self.trainer.name != "trl_sft":
            return []
        message = "ignored by the trainer trl_sft, which packs and collates by its own config: leave it out"
        named = ("packer", "collator", "map_kwargs")
        return [Fault((name,), message) for name in named if name in self.model_fields_set]
