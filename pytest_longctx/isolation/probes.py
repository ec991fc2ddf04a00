"""The probe as a contract asks for it: its model, its collator, its call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.isolation.models import ModelTerms
from pytest_longctx.isolation.probe import probe
from pytest_longctx.isolation.results import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_longctx.contract import IsolationSection
    from pytest_longctx.contract.stages import PackingSection
    from pytest_longctx.isolation.results import ProbeResult
    from pytest_longctx.isolation.segments import IdArray

# Tiny models have few ids; a collator that pads may need the tokenizer's own pad id.
TINY_VOCABULARY = 256


class Probes:
    """Results by attention implementation, made at the first question.

    Args:
        make_batch: from samples to the batch that the contract's packer and collator, or its trainer, make.
        forward: what the training step passes to the model.
        folder: where the model would lie if the contract names a folder.
        pad_token_id, vocabulary_size: the tokenizer's.
    """

    def __init__(
        self,
        terms: IsolationSection,
        make_batch: Callable[[list[Mapping[str, Any]]], Mapping[str, Any]],
        forward: Mapping[str, Any],
        folder: Path,
        pad_token_id: int,
        vocabulary_size: int,
    ) -> None:
        self._terms, self._make_batch, self._forward = terms, make_batch, forward
        name = str(folder) if folder.is_dir() else terms.model
        size = TINY_VOCABULARY if pad_token_id < TINY_VOCABULARY else vocabulary_size
        self._model = ModelTerms(name, size, terms.weights, terms.revision)
        self._results: dict[str, dict[str, ProbeResult]] = {}

    def __call__(self, attention: str) -> dict[str, ProbeResult]:
        """The answers to all questions under one attention implementation.

        Raises:
            IsolationError: the model or the batches are unusable.
        """
        if attention not in self._results:
            terms = self._terms
            self._results[attention] = probe(
                self._model,
                attention,
                self._batch,
                self._forward,
                dtype=terms.dtype,
                device=terms.device,
                seed=terms.seed,
                limits=Limits(terms.limits.max_logit_difference, terms.limits.max_loss_difference),
            )
        return self._results[attention]

    def _batch(self, segments: list[IdArray]) -> Mapping[str, Any]:
        """These samples as the contract's own collator gives them; all tokens are targets."""
        ids = [segment.astype(np.int64) for segment in segments]
        return self._make_batch([{"input_ids": sample, "labels": sample.copy()} for sample in ids])


def forward_of(terms: IsolationSection, packing: PackingSection | None) -> dict[str, Any]:
    """What the training step passes to the model; `use_cache` as the trainer has it, where one is named."""
    trainer = packing.trainer if packing else None
    if trainer is None or trainer.name not in ("trl_sft", "transformers"):
        return terms.forward
    # SFTTrainer passes False, whatever its config says; Trainer writes its argument into the model's config.
    cache = trainer.name == "transformers" and bool(trainer.config.get("use_cache"))
    return {"use_cache": cache, **terms.forward}
