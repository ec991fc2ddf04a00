"""The loss of a packed row against the losses of its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.isolation.batches import IGNORED
from pytest_longctx.isolation.results import ProbeResult, unknown
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from pytest_longctx.isolation.behaviour import Setting
    from pytest_longctx.isolation.calls import Batch
    from pytest_longctx.isolation.results import Outcome


def loss(setting: Setting, limit: float, leaks: bool) -> ProbeResult:
    """The packed loss is the token-weighted mean of the samples' own losses, in nats, within `limit`.

    `leaks` tells whether the samples are known to see each other; it decides between `leaks` and `wrong`.
    """
    batch = setting.original()
    alone, targets = _samples_alone(setting, batch)
    if not sum(targets):
        return unknown("loss", setting.attention, limit, "no sample of the probe has a target in its labels")
    packed = setting.subject.loss_of(batch.inputs, batch.labels)
    others = _other_weightings(batch, alone, targets)
    by_token = sum(a * n for a, n in zip(alone, targets, strict=True)) / sum(targets)
    extra = int((batch.labels[:, 1:] != IGNORED).sum()) - sum(targets)
    repeated = _repeated(setting)
    measured = max(abs(packed - by_token), repeated)
    if not measured <= limit:  # also when it is NaN
        kind, why = _explain(packed, others, extra, repeated, limit, leaks)
        message = (
            f"packed loss {packed:.6g}, the samples alone give {by_token:.6g} weighted by token "
            f"(limit {limit:.2g}): {why}"
        )
        witness = Witness(id="row 0", expected=by_token, found=packed, row=0, note=why)
        return ProbeResult("loss", setting.attention, kind, measured, limit, message, (witness,))
    message = f"token-weighted: packed loss {packed:.6g} = the samples alone over {sum(targets)} targets"
    return ProbeResult("loss", setting.attention, "isolated", measured, limit, message)


def _samples_alone(setting: Setting, batch: Batch) -> tuple[list[float], list[int]]:
    """Loss (mean over targets) and number of targets of each sample alone, with its labels of the batch."""
    losses, targets = [], []
    for place, ids in zip(batch.places, setting.segments.ids, strict=True):
        labels = batch.labels[place.row, place.tokens][None]
        count = int((labels[:, 1:] != IGNORED).sum())
        targets.append(count)
        losses.append(setting.subject.loss_of(setting.subject.alone(ids), labels) if count else 0.0)
    return losses, targets


def _other_weightings(batch: Batch, alone: list[float], targets: list[int]) -> dict[str, float]:
    """What the loss would be, averaged over samples or over rows."""
    rows: dict[int, list[tuple[float, int]]] = {}
    for place, value, count in zip(batch.places, alone, targets, strict=True):
        if count:
            rows.setdefault(place.row, []).append((value, count))
    samples = [value for row in rows.values() for value, _ in row]
    means = [
        sum(value * count for value, count in row) / sum(count for _, count in row) for row in rows.values()
    ]
    return {"samples": sum(samples) / len(samples), "rows": sum(means) / len(means)}


def _repeated(setting: Setting) -> float:
    """How far a row of the longest sample, twice, is from its loss alone: 0 if no copy sees the other."""
    ids = max(setting.segments.ids, key=len)
    batch = setting.subject.batch([ids, ids])
    labels = batch.labels[batch.places[0].row, batch.places[0].tokens][None]
    if not int((labels[:, 1:] != IGNORED).sum()):
        return 0.0
    alone = setting.subject.loss_of(setting.subject.alone(ids), labels)
    return abs(setting.subject.loss_of(batch.inputs, batch.labels) - alone)


def _explain(
    packed: float, others: dict[str, float], extra: int, repeated: float, limit: float, leaks: bool
) -> tuple[Outcome, str]:
    if leaks or (repeated > limit and not extra):
        seen = f"a sample packed with its own copy is off by {repeated:.2g} from its loss alone"
        return ("leaks", f"the samples see each other ({seen})") if leaks else ("wrong", seen)
    if extra:
        return (
            "wrong",
            f"{abs(extra)} targets too {'many' if extra > 0 else 'few'}: labels cross a sample's bounds",
        )
    for weighting, value in others.items():
        if abs(packed - value) <= limit:
            return "wrong", f"it is the mean over {weighting}, so tokens of short ones count more"
    return "wrong", "no weighting of the samples' own losses gives it"
