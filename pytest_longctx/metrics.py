"""Metrics of a run, read from files: JSON with the gates' keys, or a Hugging Face run and an evaluation."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.bounded import read_bytes
from pytest_longctx.curriculum import (
    BASELINE_METRICS,
    CANDIDATE_METRICS,
    FLAGS,
    MetricsError,
    is_finite,
    numbers,
    told,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

# What the log of a trainer says of each flag. With `logging_nan_inf_filter`, the trainer's default, a loss of
# training that is not finite does not reach the log: only runs with the filter off can fail there.
_LOGGED = {"loss_finite": "loss", "gradients_finite": "grad_norm"}
# Tokens of a window, as in a contract.
_MOST_TOKENS = 2**31 - 1


def read_metrics(
    path: str | os.PathLike[str], target_context_len: int | None = None, baseline: bool = False
) -> dict[str, Any]:
    """Read a JSON object with the keys of the gates (the first three only, for a `baseline`).

    `target_context_len` is among what is returned where the file names it. Raises MetricsError for an
    unreadable file, missing keys, keys that stand there twice, values that no run has, and a file that names
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
    looked for in the evaluation, in its `results` (lm-evaluation-harness), and in the trainer state, and is
    the same wherever it stands. Unless in `paths`, `loss_finite` holds if every `loss` of the log and every
    key that ends in `_loss` is finite, and `gradients_finite` if every `grad_norm` is. Errors as for
    `read_metrics`.
    """
    state, scores = _read_object(trainer_state), _read_object(evaluation)
    known = {*CANDIDATE_METRICS, *FLAGS, "target_context_len"}
    unknown = sorted(set(paths) - known)
    if unknown:
        raise MetricsError(f"map: unknown metric {unknown[0]!r}, expected one of {', '.join(sorted(known))}")
    places = [
        (str(evaluation), scores),
        (f"results of {evaluation}", scores.get("results")),
        (str(trainer_state), state),
    ]
    found: dict[str, Any] = {}
    for metric, path in paths.items():
        values = [(value, name) for name, place in places for value in _at(place, path)]
        if not values:
            raise MetricsError(f"map: {metric}: {path!r} is neither in {evaluation} nor in {trainer_state}")
        found[metric] = _agreed(values, f"map: {metric}: {path!r}")
    if not baseline:
        for flag, logged in _LOGGED.items():
            if flag not in found:
                found[flag] = _all_finite(state, logged, trainer_state)
    return _checked(found, f"{evaluation} with {trainer_state}", target_context_len, baseline)


def _read_object(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        value = json.loads(read_bytes(Path(path)).decode(), object_pairs_hook=_object)
    except OSError as error:
        raise MetricsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MetricsError(f"{path}: is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise MetricsError(f"{path}:{error.lineno}:{error.colno}: is not JSON: {error.msg}") from error
    except MetricsError as error:
        raise MetricsError(f"{path}: {error}") from error
    except (RecursionError, ValueError) as error:
        raise MetricsError(
            f"{path}: is nested too deeply, or holds a number with thousands of digits"
        ) from error
    if not isinstance(value, dict):
        raise MetricsError(f"{path}: expected an object, found {type(value).__name__}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ((key, times),) = Counter(key for key, _ in pairs).most_common(1)
        raise MetricsError(f"found key {told(key)} {times} times in one object, expected it once; keep one")
    return values


def _agreed(values: list[tuple[Any, str]], what: str) -> Any:
    """Return the one value that stands in all places."""
    (value, place), *others = values
    for other, name in others:
        if other != value:
            raise MetricsError(
                f"{what} is {told(value)} in {place} and {told(other)} in {name}, expected one value; "
                "write a path that leads to one place"
            )
    return value


def _checked(values: dict[str, Any], where: str, window: int | None, baseline: bool) -> dict[str, Any]:
    claimed = _window(values, where, window)
    checked: dict[str, Any] = claimed | dict(
        numbers(values, BASELINE_METRICS if baseline else CANDIDATE_METRICS, where)
    )
    for flag in () if baseline else FLAGS:
        if not isinstance(values.get(flag), bool):
            found = told(values[flag]) if flag in values else "missing"
            raise MetricsError(f"{where}: {flag} is {found}, expected true or false")
        checked[flag] = values[flag]
    return checked


def _window(values: dict[str, Any], where: str, window: int | None) -> dict[str, int]:
    """The window that the metrics name, under its key."""
    key = "target_context_len"
    if key not in values:
        return {}
    claimed = values[key]
    if not is_finite(claimed) or claimed % 1 or not 1 <= claimed <= _MOST_TOKENS:
        raise MetricsError(
            f"{where}: {key} is {told(claimed)}, expected a whole number from 1 to {_MOST_TOKENS}"
        )
    if window is not None and claimed != window:
        raise MetricsError(f"{where}: metrics of window {claimed}, expected those of {window}")
    return {key: int(claimed)}


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
    entries = [entry for entry in history if isinstance(entry, dict)] if isinstance(history, list) else []
    if not any(logged in entry for entry in entries):
        raise MetricsError(f"{path}: no {logged} in log_history; name the flag in map, or log it")
    # An evaluation, the whole run and a model's experts log their own: eval_loss, train_loss, aux_loss.
    return all(
        is_finite(value)
        for entry in entries
        for key, value in entry.items()
        if key == logged or (logged == "loss" and key.endswith("_loss"))
    )
