"""Metrics of a run, read from files: JSON with the gates' keys, or a Hugging Face run and an evaluation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.bounded import read_bytes
from pytest_longctx.curriculum import BASELINE_METRICS, CANDIDATE_METRICS, FLAGS, MetricsError, numbers

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

# What the log of a trainer says of each flag. With `logging_nan_inf_filter`, the trainer's default, a loss
# that is not finite does not reach the log: only runs with the filter off can fail there.
_LOGGED = {"loss_finite": "loss", "gradients_finite": "grad_norm"}


def read_metrics(
    path: str | os.PathLike[str], target_context_len: int | None = None, baseline: bool = False
) -> dict[str, Any]:
    """Read a JSON object with the keys of the gates (the first three only, for a `baseline`).

    Raises MetricsError for an unreadable file, missing keys, values of another type, and a file that names
    another `target_context_len`.
    """
    return _checked(_read_object(path), str(path), target_context_len, baseline)


def read_trainer_metrics(
    trainer_state: str | os.PathLike[str],
    evaluation: str | os.PathLike[str],
    paths: Mapping[str, str],
    target_context_len: int | None = None,
    baseline: bool = False,
) -> dict[str, Any]:
    """Put metrics together from a run's `trainer_state.json` and an evaluation.

    `paths` leads from a metric to its place: keys joined by dots, which may stand in keys as well. It is
    looked for in the evaluation, then in its `results` (lm-evaluation-harness), then in the trainer state.
    `loss_finite` and `gradients_finite`, unless in `paths`, hold if every `loss` and `grad_norm` of the log
    is finite. Errors as for `read_metrics`.
    """
    state, scores = _read_object(trainer_state), _read_object(evaluation)
    known = {*CANDIDATE_METRICS, *FLAGS, "target_context_len"}
    unknown = sorted(set(paths) - known)
    if unknown:
        raise MetricsError(f"map: unknown metric {unknown[0]!r}, expected one of {', '.join(sorted(known))}")
    places = [scores, scores.get("results"), state]
    found: dict[str, Any] = {}
    for metric, path in paths.items():
        values = [value for place in places for value in _at(place, path)]
        if not values:
            raise MetricsError(f"map: {metric}: {path!r} is neither in {evaluation} nor in {trainer_state}")
        found[metric] = values[0]
    if not baseline:
        for flag, logged in _LOGGED.items():
            if flag not in found:
                found[flag] = _all_finite(state, logged, trainer_state)
    return _checked(found, f"{evaluation} with {trainer_state}", target_context_len, baseline)


def _read_object(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        value = json.loads(read_bytes(Path(path)).decode())
    except OSError as error:
        raise MetricsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MetricsError(f"{path}: is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise MetricsError(f"{path}:{error.lineno}:{error.colno}: is not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise MetricsError(
            f"{path}: is nested too deeply, or holds a number with thousands of digits"
        ) from error
    if not isinstance(value, dict):
        raise MetricsError(f"{path}: expected an object, found {type(value).__name__}")
    return value


def _checked(values: dict[str, Any], where: str, window: int | None, baseline: bool) -> dict[str, Any]:
    claimed = values.get("target_context_len", window)
    if window is not None and claimed != window:
        raise MetricsError(f"{where}: metrics of window {claimed!r}, expected those of {window}")
    checked: dict[str, Any] = dict(
        numbers(values, BASELINE_METRICS if baseline else CANDIDATE_METRICS, where)
    )
    for flag in () if baseline else FLAGS:
        if not isinstance(values.get(flag), bool):
            found = repr(values[flag]) if flag in values else "missing"
            raise MetricsError(f"{where}: {flag} is {found}, expected true or false")
        checked[flag] = values[flag]
    return checked


def _at(place: Any, path: str) -> list[Any]:
    """Return all that stands at a dotted path; its keys may hold dots themselves."""
    if not isinstance(place, dict):
        return []
    if path in place:
        return [place[path]]
    inner = [_at(place[key], path[len(key) + 1 :]) for key in place if path.startswith(f"{key}.")]
    return [value for values in inner for value in values]


def _all_finite(state: dict[str, Any], logged: str, path: str | os.PathLike[str]) -> bool:
    history = state.get("log_history")
    entries = history if isinstance(history, list) else []
    values = [entry[logged] for entry in entries if isinstance(entry, dict) and logged in entry]
    if not values:
        raise MetricsError(f"{path}: no {logged} in log_history; name the flag in map, or log it")
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)
