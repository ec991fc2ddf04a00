"""The measurements: logits, gradients and the sample alone, each on one packed row (or batch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.isolation.errors import IsolationError, UnavailableError
from pytest_longctx.isolation.results import ProbeResult
from pytest_longctx.isolation.segments import half
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from pytest_longctx.isolation.calls import Batch, Subject
    from pytest_longctx.isolation.results import Outcome
    from pytest_longctx.isolation.segments import Place, Segments


@dataclass(frozen=True, slots=True)
class Setting:
    """One probe on one choice of samples. `exact` is the largest leak that still counts as none."""

    subject: Subject
    attention: str
    segments: Segments
    limit: float
    exact: float = 0.0

    def result(
        self,
        name: str,
        outcome: Outcome,
        measured: float | None,
        message: str,
        witnesses: Sequence[Witness] = (),
    ) -> ProbeResult:
        """A result of this setting; leaks are held against `exact`, other differences against `limit`."""
        limit = self.limit if name == "standalone" else 0.0 if name == "gradients" else self.exact
        return ProbeResult(name, self.attention, outcome, measured, limit, message, tuple(witnesses))

    def original(self) -> Batch:
        """The batch of the samples as they are."""
        return self.subject.batch(self.segments.ids)

    def again(self, batch: Batch, changed: Sequence[int] | None) -> torch.Tensor:
        """Logits with the numbered samples changed, or the later half of each (None)."""
        samples = (
            self.segments.changed_from_half() if changed is None else self.segments.changed(set(changed))
        )
        other = self.subject.batch(samples)
        if other.places != batch.places:
            raise IsolationError(
                "the packer or collator moved the probe's samples when only their token ids changed: "
                "a layout must depend on lengths alone"
            )
        return self.subject.logits(other)


@dataclass(frozen=True, slots=True)
class Leak:
    """Segment `source` moved segment `target`, by `size`; first at token `position` of the row."""

    source: int
    target: int
    size: float
    position: int
    distance: int

    def witness(self, target: Place, what: str) -> Witness:
        """The leak as a witness."""
        return Witness(
            id=f"row {target.row} segment {self.target}",
            expected=0.0,
            found=self.size,
            position=self.position,
            row=target.row,
            segment=self.target,
            note=f"{what} from segment {self.source}, first seen {_tokens(self.distance)} away",
        )


def logits(setting: Setting) -> ProbeResult:
    """Change every token of one segment: no other may move. Change later halves: no earlier half may move."""
    batch = setting.original()
    base = setting.subject.logits(batch)
    scale = _scale(base)
    drift = float((setting.subject.logits(batch) - base).abs().max()) / scale
    if drift > setting.exact:
        return setting.result("logits", "leaks", drift, _drift_message(drift))
    leaks = [
        leak
        for source in range(len(batch.places))
        for leak in _leaks(
            ((setting.again(batch, [source]) - base).abs().amax(-1) / scale), batch.places, source
        )
    ]
    future = _future((setting.again(batch, None) - base).abs().amax(-1) / scale, batch.places)
    return _verdict(setting, "logits", leaks, future, batch.places, setting.exact)


def gradients(setting: Setting) -> ProbeResult:
    """A segment's logits have no gradient at another segment's embeddings, nor early tokens at later ones."""
    import torch

    batch = setting.original()
    leaks: list[Leak] = []
    future: list[Leak] = []
    with setting.subject.embeddings() as leaves, torch.enable_grad():
        out = setting.subject.graph(batch.inputs)
        if len(leaves) != 1 or leaves[0].shape[:2] != out.shape[:2]:
            raise UnavailableError(f"the embedding was called {len(leaves)} times in one step, expected once")
        direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).to(out)
        weighted = (out * direction).sum(-1)
        for target, place in enumerate(batch.places):
            slope = _slope(weighted[place.row, place.tokens].sum(), leaves[0])
            own = float(slope[place.row, place.tokens].max())
            if own == 0.0:
                raise UnavailableError(_blind_message("its own embeddings"))
            leaks += _pulls(slope / own, batch.places, target)
        early = [weighted[p.row, p.start : p.start + half(p.end - p.start)].sum() for p in batch.places]
        slope = _slope(torch.stack(early).sum(), leaves[0])
        future += _future_pulls(slope / float(slope.max()), batch.places)
    return _verdict(setting, "gradients", leaks, future, batch.places, 0.0)


def standalone(setting: Setting, leaks: bool = False) -> ProbeResult:
    """A packed segment's logits are those of the sample alone in the plain call, within the limit.

    `leaks` tells whether the samples are known to see each other: a difference is then a leak, else `wrong`.
    """
    batch = setting.original()
    packed = setting.subject.logits(batch)
    scale = _scale(packed)
    found = []
    for number, (place, ids) in enumerate(zip(batch.places, setting.segments.ids, strict=True)):
        away = (packed[place.row, place.tokens] - setting.subject.plain(ids)).abs().amax(-1) / scale
        found.append((float(away.max()), number, place, away))
    measured, number, place, away = max(found, key=lambda item: item[0])
    if measured <= setting.limit:
        message = "packed samples give what they give alone" + _unreached(setting)
        return setting.result("standalone", "isolated", measured, message)
    first = int((away > setting.limit).nonzero()[0])
    witness = Witness(
        id=f"row {place.row} segment {number}",
        expected=0.0,
        found=measured,
        position=place.start + first,
        row=place.row,
        segment=number,
        note=f"differs from the sample alone from its token {first} on",
    )
    message = (
        f"a packed sample does not give what it gives alone: segment {number} is off by {measured:.2g} "
        f"(limit {setting.limit:.2g}), from its token {first} on"
    )
    return setting.result("standalone", "leaks" if leaks else "wrong", measured, message, [witness])


def control(setting: Setting) -> str | None:
    """Why this probe is blind, or None.

    The samples run as one long sample, a call known to leak: each must then move the next, or the probe
    would see no leak at all.
    """
    segments = setting.segments
    ends = [sum(len(ids) for ids in segments.ids[: k + 1]) for k in range(len(segments.ids))]
    base = setting.subject.plain(segments.joined())
    for parity in (0, 1):
        changed = {k for k in range(len(ends)) if k % 2 == parity}
        moved = (setting.subject.plain(np.concatenate(segments.changed(changed))) - base).abs().amax(-1)
        still = [k for k in changed if ends[k] < len(moved) and float(moved[ends[k]]) == 0.0]
        if still:
            return _blind_message(f"segment {still[0]} before it, in a call that does not separate them")
    return None


def _unreached(setting: Setting) -> str:
    """What to add when the samples are shorter than the model's sliding window, as a folder's may be."""
    window = getattr(getattr(setting.subject.model, "config", None), "sliding_window", None) or 0
    if window < max(map(len, setting.segments.ids)):
        return ""
    return f"; its sliding window of {window} tokens is longer than the probe's samples and was not reached"


def _verdict(
    setting: Setting, name: str, leaks: list[Leak], future: list[Leak], places: Sequence[Place], limit: float
) -> ProbeResult:
    measured = max((leak.size for leak in (*leaks, *future)), default=0.0)
    if measured <= limit:
        return setting.result(name, "isolated", measured, "no segment sees another")
    what = "gradient" if name == "gradients" else "change"
    between = sorted((leak for leak in leaks if leak.size > limit), key=lambda leak: -leak.size)
    if between:
        top, nearest = between[0], min(leak.distance for leak in between)
        message = (
            f"packed samples see each other: {len(between)} pairs, largest {what} {top.size:.2g} from "
            f"segment {top.source} into segment {top.target}, first seen {_tokens(nearest)} away"
        )
    else:
        between = sorted((leak for leak in future if leak.size > limit), key=lambda leak: -leak.size)
        top = between[0]
        message = (
            f"a token sees later tokens of its own sample: {what} {top.size:.2g} in segment {top.target}"
        )
    witnesses = [leak.witness(places[leak.target], what) for leak in between]
    return setting.result(name, "leaks", measured, message, witnesses)


def _leaks(moved: torch.Tensor, places: Sequence[Place], source: int) -> list[Leak]:
    """What a change in segment `source` moved elsewhere; `moved` is rows x tokens."""
    leaks = []
    for target, place in enumerate(places):
        part = moved[place.row, place.tokens]
        if target != source and float(part.max()) > 0.0:
            first = place.start + int(part.nonzero()[0])
            leaks.append(
                Leak(source, target, float(part.max()), first, _distance(places[source], place.row, first))
            )
    return leaks


def _pulls(slope: torch.Tensor, places: Sequence[Place], target: int) -> list[Leak]:
    """The segments at whose embeddings segment `target` has a gradient; `slope` is rows x tokens."""
    leaks = []
    for source, place in enumerate(places):
        part = slope[place.row, place.tokens]
        if source != target and float(part.max()) > 0.0:
            start = places[target].start
            leaks.append(
                Leak(source, target, float(part.max()), start, _distance(place, places[target].row, start))
            )
    return leaks


def _future(moved: torch.Tensor, places: Sequence[Place]) -> list[Leak]:
    leaks = []
    for number, place in enumerate(places):
        middle = half(place.end - place.start)
        part = moved[place.row, place.start : place.start + middle]
        if float(part.max()) > 0.0:
            first = int(part.nonzero()[0])
            leaks.append(Leak(number, number, float(part.max()), place.start + first, middle - first))
    return leaks


def _future_pulls(slope: torch.Tensor, places: Sequence[Place]) -> list[Leak]:
    leaks = []
    for number, place in enumerate(places):
        middle = place.start + half(place.end - place.start)
        part = slope[place.row, middle : place.end]
        if part.numel() and float(part.max()) > 0.0:
            leaks.append(Leak(number, number, float(part.max()), middle, 1))
    return leaks


def _slope(value: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    """Largest gradient at each token's embedding: rows x tokens."""
    import torch

    from pytest_longctx.isolation.calls import refusals
    from pytest_longctx.isolation.models import out_of_memory

    with refusals(), out_of_memory():
        (gradient,) = torch.autograd.grad(value, leaf, retain_graph=True)
    return gradient.float().abs().amax(-1)


def _distance(source: Place, row: int, position: int) -> int:
    """Tokens from the nearest end of `source` to `position`; across rows, from its start (0)."""
    if row != source.row:
        return 0
    return position - source.end + 1 if position >= source.end else source.start - position


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"


def _scale(logits: torch.Tensor) -> float:
    return max(1.0, float(logits.abs().max()))


def _drift_message(drift: float) -> str:
    return (
        f"the same call, made twice, gives other logits ({drift:.2g}): "
        "the model keeps something between calls (a cache, a state) or is not deterministic"
    )


def _blind_message(what: str) -> str:
    return f"the probe is broken for this model: a segment does not react to {what}"
