"""The probe: every question to one model under one attention implementation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_longctx.isolation import behaviour, losses
from pytest_longctx.isolation.behaviour import Setting
from pytest_longctx.isolation.calls import Subject, deterministic, draw, own_loss
from pytest_longctx.isolation.dispatch import dispatch, plain_flash
from pytest_longctx.isolation.errors import UnavailableError
from pytest_longctx.isolation.matrix import call_matrix
from pytest_longctx.isolation.models import FLASH, PLAIN_FLASH, ModelTerms, build_model
from pytest_longctx.isolation.results import CHECKS, Limits, ProbeResult, unknown, worst
from pytest_longctx.isolation.segments import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

    from pytest_longctx.isolation.calls import Loss
    from pytest_longctx.isolation.segments import IdArray


def probe(
    model: ModelTerms | torch.nn.Module,
    attention: str,
    make_batch: Callable[[list[IdArray]], Mapping[str, Any]],
    forward: Mapping[str, Any] | None = None,
    *,
    dtype: str = "float32",
    device: str = "cpu",
    seed: int = 0,
    limits: Limits | None = None,
    layouts: Sequence[Sequence[int]] = LAYOUTS,
    loss: Loss | None = None,
    checks: Sequence[str] = CHECKS,
) -> dict[str, ProbeResult]:
    """Ask whether packed samples see each other. One result a check; with flash on a CPU also `dispatch`.

    `make_batch` gives the batch of these samples as `forward` receives it, numpy or torch; `labels` in it are
    taken for the loss and not passed otherwise. `forward` holds the further arguments of the training step.
    `layouts` are lengths in tokens of the samples packed together; `loss` and `call_matrix` use the first.
    `loss` replaces the model's own. A model that is given built must have no dropout: see `without_dropout`.
    Raises IsolationError when the model or the batches are unusable: NaN, ids out of range, lost samples.
    """
    chosen = (limits or Limits()).scaled(dtype)
    terms = _Terms(
        attention, make_batch, forward or {}, dtype, device, seed, layouts, loss or own_loss, chosen
    )
    with deterministic(seed, device, attention):
        try:
            built = _built(model, terms)
        except UnavailableError as error:
            reason = (chosen.logits, str(error), error.requirement)
            found = {name: unknown(name, attention, *reason) for name in checks}
            seen = _dispatch(model, terms) if attention in FLASH and isinstance(model, ModelTerms) else None
            return found | {"dispatch": seen} if seen else found
        return _ask(built, terms, checks)


@dataclass(frozen=True, slots=True)
class _Terms:
    attention: str
    make_batch: Callable[[list[IdArray]], Mapping[str, Any]]
    forward: Mapping[str, Any]
    dtype: str
    device: str
    seed: int
    layouts: Sequence[Sequence[int]]
    loss: Loss
    limits: Limits

    def settings(self, model: torch.nn.Module) -> list[Setting]:
        """One setting a layout."""
        subject = Subject(model, self.make_batch, self.forward, self.loss)
        exact = self.limits.logits if has_experts(model) else 0.0
        return [
            Setting(subject, self.attention, draw(lengths, model, self.seed), self.limits.logits, exact)
            for lengths in self.layouts
        ]


def _built(model: ModelTerms | torch.nn.Module, terms: _Terms) -> Any:
    if not isinstance(model, ModelTerms):
        return model
    return build_model(
        model.name,
        terms.attention,
        model.vocabulary_size,
        terms.dtype,
        terms.device,
        terms.seed,
        model.weights,
        model.revision,
    )


def _ask(model: torch.nn.Module, terms: _Terms, checks: Sequence[str]) -> dict[str, ProbeResult]:
    settings = terms.settings(model)
    if blind := _blind(settings):
        return {name: unknown(name, terms.attention, terms.limits.logits, blind) for name in checks}
    found: dict[str, ProbeResult] = {}
    for name in sorted(checks, key=CHECKS.index):
        leaks = any(result.outcome == "leaks" for result in found.values())
        asked = settings[:1] if name in ("loss", "call_matrix") else settings
        found[name] = worst([_one(name, setting, terms.limits, leaks) for setting in asked])
    return {name: found[name] for name in checks}


def _blind(settings: Sequence[Setting]) -> str | None:
    """Why a leak would not show in this model, by a call that is known to leak."""
    try:
        return next(filter(None, map(behaviour.control, settings)), None)
    except UnavailableError as error:
        return str(error)


def _one(name: str, setting: Setting, limits: Limits, leaks: bool) -> ProbeResult:
    questions: dict[str, Callable[[], ProbeResult]] = {
        "logits": lambda: behaviour.logits(setting),
        "gradients": lambda: behaviour.gradients(setting),
        "standalone": lambda: behaviour.standalone(setting, leaks),
        "loss": lambda: losses.loss(setting, limits.loss, leaks),
        "call_matrix": lambda: call_matrix(setting),
    }
    try:
        return questions[name]()
    except UnavailableError as error:
        return unknown(name, setting.attention, limits.loss if name == "loss" else limits.logits, str(error))


def has_experts(model: torch.nn.Module) -> bool:
    """Whether tokens are grouped by expert: a change elsewhere regroups them, and sums round differently."""
    config = getattr(model, "config", None)
    return any((getattr(config, f"num{kind}experts", None) or 0) > 1 for kind in ("_", "_local_", "_routed_"))


def _dispatch(model: ModelTerms, terms: _Terms) -> ProbeResult:
    """What a flash kernel would be given here."""
    try:
        with plain_flash() as record:
            built = _built(model, replace(terms, attention="eager", dtype="float32"))
            if not has_experts(built):
                # In float32 transformers looks for the dtype of a linear layer, which not every model has;
                # torch has no grouped product for experts in float64.
                built = built.double()
            if not getattr(built, "_supports_flash_attn", False):
                raise UnavailableError(f"{model.name} has no flash attention in this transformers")
            built.config._attn_implementation = PLAIN_FLASH
            settings = terms.settings(built)
            if _blind(settings):  # falcon, for one, chooses its attention class when it is built
                raise UnavailableError(
                    f"{model.name} does not run on transformers' flash path without its kernel"
                )
            return worst([dispatch(setting, record) for setting in settings])
    except UnavailableError as error:
        reason = (terms.limits.logits, str(error), error.requirement)
        return unknown("dispatch", terms.attention, *reason)
