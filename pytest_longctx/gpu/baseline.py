"""Step times beside those of an older record, where both ran the same steps on the same hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_longctx.gpu.errors import RecordError
from pytest_longctx.gpu.record import BaselineComparison, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_longctx.gpu.device import Device
    from pytest_longctx.gpu.record import LengthMeasurement
    from pytest_longctx.gpu.workload import Workload


def compare_with(
    path: Path,
    device: Device,
    workload: Workload,
    measured: Sequence[LengthMeasurement],
    versions: Mapping[str, Any],
) -> BaselineComparison:
    """Ratios to a baseline by length; or the reason why there are none. Never raises."""
    if path.is_dir():
        path /= f"{device.fingerprint}.json"
        if not path.exists():
            reason = f"there is no {path}: no record of this hardware was accepted yet"
            return BaselineComparison(str(path), None, reason, {})
    try:
        baseline = read_json(path)
        reason = _incomparable(baseline, device, workload)
        ratios = {} if reason else _ratios(baseline, measured)
        return BaselineComparison(str(path), baseline["label"], reason, ratios, _notes(baseline, versions))
    except RecordError as error:
        reason = str(error)
    except ValueError as error:
        reason = f"{path}: {error}"
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"{path}: no complete record: {error!r}"
    return BaselineComparison(str(path), None, reason, {}, readable=False)


def _incomparable(baseline: dict[str, Any], device: Device, workload: Workload) -> str:
    if baseline["mode"] != "real":
        return f"the baseline is a {baseline['mode']} run: it measured no GPU"
    if baseline["failure"] is not None:
        return f"the baseline's run failed in stage {baseline['failure']['stage']}"
    if baseline["hardware"]["fingerprint"] != device.fingerprint:
        return (
            f"other hardware: the baseline ran on {baseline['hardware']['name']}, this run on {device.name}"
        )
    if baseline["workload"]["fingerprint"] != workload.fingerprint:
        other, own = baseline["workload"], workload.to_json()
        differing = [key for key in own if key != "fingerprint" and _plain(own[key]) != other.get(key)]
        return f"the baseline ran another workload: {', '.join(differing) or 'its version'} differs"
    return ""


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _ratios(baseline: dict[str, Any], measured: Sequence[LengthMeasurement]) -> dict[str, float]:
    before: dict[int, float] = {}
    for item in baseline["measurements"]:
        length, seconds = item["length"], item["steps"]["median_seconds"]
        if length in before or isinstance(seconds, bool) or not seconds > 0:
            told = "twice" if length in before else f"with a median of {seconds!r} seconds"
            raise ValueError(f"length {length} stands there {told}, expected once and above 0")
        before[length] = seconds
    return {str(item.length): item.steps.median_seconds / before[item.length] for item in measured}


def _notes(baseline: dict[str, Any], versions: Mapping[str, Any]) -> tuple[str, ...]:
    """Versions that differ: they are compared on purpose, and said."""
    before = baseline.get("versions") or {}
    return tuple(
        f"{name} {before.get(name)} → {own}" for name, own in versions.items() if before.get(name) != own
    )
