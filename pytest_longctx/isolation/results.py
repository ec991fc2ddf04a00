"""What a probe says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_longctx.witness import Witness

Outcome = Literal["isolated", "leaks", "wrong", "unknown"]
CHECKS = ("logits", "gradients", "standalone", "loss", "call_matrix")
_WORST_FIRST: tuple[Outcome, ...] = ("leaks", "wrong", "unknown", "isolated")


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One question put to one model under one attention implementation.

    `isolated`: no segment sees another. `leaks`: one does. `wrong`: isolated, but not what the sample alone
    gives. `unknown`: it could not be told here; `message` has the reason. `measured` and `limit` are
    differences: of logits, relative to the largest logit (at least 1); of embedding gradients, relative to
    the segment's own; of losses. `table` holds the cells of `call_matrix` and the kernel calls of `dispatch`.
    `requirement`: what an `unknown` lacks here beside its attention, such as `gpu`.
    """

    name: str
    attention: str
    outcome: Outcome
    measured: float | None
    limit: float
    message: str
    witnesses: tuple[Witness, ...] = ()
    table: tuple[dict[str, Any], ...] = ()
    requirement: str = ""


def unknown(name: str, attention: str, limit: float, reason: str, requirement: str = "") -> ProbeResult:
    """The result of a question that could not be put."""
    message = f"cannot tell here: {reason}"
    return ProbeResult(name, attention, "unknown", None, limit, message, requirement=requirement)


def worst(results: Sequence[ProbeResult]) -> ProbeResult:
    """One result for several rows: the worst outcome, the largest measured value, all witnesses."""
    chosen = min(results, key=lambda result: (_WORST_FIRST.index(result.outcome), -(result.measured or 0.0)))
    witnesses = tuple(w for result in results if result.outcome == chosen.outcome for w in result.witnesses)
    return replace(chosen, witnesses=witnesses)


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest differences allowed in float32; other dtypes get 8 units in their last place if that is more.

    `logits` is relative to the largest logit (at least 1), `loss` is absolute, in nats per token.
    """

    logits: float = 1.0e-5
    loss: float = 1.0e-4

    def scaled(self, dtype: str) -> Limits:
        """The limits for a dtype: `float32`, `bfloat16`, `float16` or `float64`."""
        import torch

        floor = (
            8.0 * float(torch.finfo(getattr(torch, dtype)).eps) if dtype in ("bfloat16", "float16") else 0.0
        )
        return Limits(max(self.logits, floor), max(self.loss, floor))
