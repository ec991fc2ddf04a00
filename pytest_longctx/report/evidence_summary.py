"""The evidence of one contract in a few kilobytes of plain JSON: what reports draw and xdist can carry."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.curriculum import SCORES
from pytest_longctx.lengths import LengthHistogram
from pytest_longctx.report.offenders import offenders
from pytest_longctx.report.record import finite
from pytest_longctx.report.what_if import window_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from pytest_longctx.evidence import Evidence
    from pytest_longctx.lengths import Int64Array

BINS = 48
LIBRARIES = ("pytest", "transformers", "tokenizers", "trl", "torch", "datasets", "numpy", "pyarrow")
MOST_SLICES = 200


def summarize(evidence: Evidence) -> dict[str, Any]:
    """The links that were made, each in a few numbers; a link that nobody asked for stays unmade and null."""
    made = vars(evidence)
    summary: dict[str, Any] = {"provenance": provenance(evidence)}
    for name, link, part in PARTS:
        summary[name] = part(evidence) if link in made else None
    summary["offenders"] = offenders(evidence)
    return summary


def merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What two processes saw of one contract: mappings part by part, else the first that is there."""
    merged = dict(one)
    for name, value in other.items():
        mine = merged.get(name)
        if name in ("offenders", "provenance") and mine and value:
            merged[name] = merge(mine, value)
        elif mine is None:
            merged[name] = value
    return merged


def provenance(evidence: Evidence) -> dict[str, Any]:
    """Where the numbers come from; parts that were not read are null."""
    made, contract = vars(evidence), evidence.contract
    return {
        "dataset": _dataset(evidence) if "dataset" in made else None,
        "tokenizer": _tokenizer(evidence) if "tokenizer" in made else None,
        "packing": evidence.pipeline.maker if "pipeline" in made else None,
        "window": contract.window.target_context_len if contract.window else None,
        "python": platform.python_version(),
        "libraries": {name: version for name in LIBRARIES if (version := _version(name))},
    }


def _dataset(evidence: Evidence) -> dict[str, Any]:
    dataset = evidence.dataset
    rows = evidence.measured.rows if "measured" in vars(evidence) else None
    return {
        "path": evidence.contract.dataset.path,
        "fingerprint": dataset.fingerprint(),
        "files": len(dataset.files),
        "rows": rows,
        "shape": dataset.shape,
        "note": dataset.note,
    }


def _tokenizer(evidence: Evidence) -> dict[str, Any]:
    tokenizer = evidence.tokenizer
    return {
        "path": evidence.contract.tokenizer.path if evidence.contract.tokenizer else None,
        "template": tokenizer.template_name,
        "fingerprint": tokenizer.fingerprint,
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _ledger(evidence: Evidence) -> dict[str, Any]:
    """Tokens by kind, summed over all samples."""
    measured = evidence.measured
    ledger = measured.ledger
    columns = ("template", "prompt", "supervised", "answer", "total")
    return {
        "rows": measured.rows,
        "samples": len(ledger),
        "rejected": dict(measured.rejected),
        "turns": int(ledger.turn_offsets[-1]),
        "tokens": {name: int(getattr(ledger, name).sum(dtype=np.int64)) for name in columns},
    }


def _lengths(evidence: Evidence) -> dict[str, Any] | None:
    """Percentiles, and a histogram whose bins grow with the length."""
    histogram = LengthHistogram.of(evidence.measured.ledger.total)
    if not histogram.count:
        return None
    section, window = evidence.contract.lengths, evidence.contract.window
    edges = bin_edges(int(histogram.values[0]), histogram.longest)
    return {
        "shortest": int(histogram.values[0]),
        "p50": histogram.percentile(50),
        "p95": histogram.percentile(95),
        "p99": histogram.percentile(99),
        "longest": histogram.longest,
        "edges": edges,
        "counts": _binned(histogram, edges),
        "short_threshold": section.short_threshold if section else None,
        "long_threshold": section.long_threshold if section else None,
        "window": window.target_context_len if window else None,
    }


def bin_edges(shortest: int, longest: int, bins: int = BINS) -> list[int]:
    """Whole-number edges, each about the same factor above the one before; the last is beyond `longest`."""
    edges = np.geomspace(max(1, shortest), longest + 1, bins + 1)
    return sorted({min(shortest, 1) if shortest < 1 else shortest, *np.rint(edges[1:]).astype(int).tolist()})


def _binned(histogram: LengthHistogram, edges: list[int]) -> list[int]:
    counts, _ = np.histogram(histogram.values, bins=np.asarray(edges), weights=histogram.counts)
    return [int(count) for count in counts]


def _packing(evidence: Evidence) -> dict[str, Any]:
    audit, capacity = evidence.audit, evidence.pipeline.expected.capacity
    seen = bool(audit.rows) and not audit.rows_hidden
    return {
        "maker": evidence.pipeline.maker,
        "capacity": capacity,
        "rows": audit.rows if not audit.rows_hidden else None,
        "row_tokens": audit.row_tokens,
        "utilization": audit.row_tokens / (audit.rows * capacity) if seen else None,
        "padding": audit.width_tokens - audit.piece_tokens,
        "occupancy": _occupancy(audit.row_lengths, capacity) if seen else None,
        "example": _example(evidence),
    }


def _occupancy(lengths: Any, capacity: int) -> list[int] | None:
    """Rows by how full they are, in twenty steps of 5 %; the last step holds full rows and fuller ones."""
    if lengths is None or not len(lengths):
        return None
    steps = np.clip(np.asarray(lengths, dtype=np.int64) * 20 // capacity, 0, 19)
    return [int(count) for count in np.bincount(steps, minlength=20)]


def _example(evidence: Evidence) -> dict[str, Any] | None:
    """The segments of the first packed row of the first batch."""
    view = evidence.audit.example
    if view is None:
        return None
    width, pieces = view.batch.width, view.pieces
    first = np.flatnonzero(pieces.start < width)
    segments = [
        {
            "id": view.name(int(pieces.start[index])),
            "start": int(pieces.start[index]),
            "end": int(min(pieces.end[index], width)),
            "supervised": int((view.labels[pieces.start[index] : pieces.end[index]] != -100).sum()),
        }
        for index in first.tolist()
    ]
    return {"row": view.first_row, "width": width, "segments": segments}


def _slices(evidence: Evidence) -> list[dict[str, Any]] | None:
    """One line per value of the slice column, the largest first."""
    if evidence.contract.dataset.slices is None:
        return None
    groups = evidence.measured.ledger.slices.groups()
    rows = [_slice(evidence, name, chosen) for name, chosen in groups.items()]
    return sorted(rows, key=lambda row: (-row["samples"], row["slice"]))[:MOST_SLICES]


def _slice(evidence: Evidence, name: str, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    ledger = evidence.measured.ledger
    histogram = LengthHistogram.of(ledger.total[chosen])
    row: dict[str, Any] = {
        "slice": name,
        "samples": histogram.count,
        "tokens": histogram.total,
        "supervised": int(ledger.supervised[chosen].sum(dtype=np.int64)),
        "p50": histogram.percentile(50),
        "p95": histogram.percentile(95),
        "longest": histogram.longest,
        "overflow_ratio": None,
        "kept_supervision_ratio": None,
    }
    if "plan" in vars(evidence):
        row |= _planned(evidence.plan.decision[chosen] == 2, evidence.plan.kept[chosen], row["supervised"])
    return row


def _planned(over: NDArray[np.bool_], kept: Int64Array, supervised: int) -> dict[str, float]:
    return {
        "overflow_ratio": float(over.mean()),
        "kept_supervision_ratio": int(kept.sum()) / supervised if supervised else 1.0,
    }


def _curriculum(evidence: Evidence) -> dict[str, Any] | None:
    """The scores of all stages, where every stage has both."""
    stages = [
        {
            "name": stage.name,
            "target_context_len": stage.target_context_len,
            **{score: _number(stage.metrics.get(score)) for score in SCORES},
        }
        for stage in evidence.stages
    ]
    known = all(stage[score] is not None for stage in stages for score in SCORES)
    return {"stages": stages} if known and stages else None


def _number(value: Any) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else finite(float(value))


def _gpu(evidence: Evidence) -> dict[str, Any] | None:
    """The length curve, where one was measured: step time in ms, allocated memory in GB of 10⁹ bytes."""
    curve = evidence.gpu_record.measurements
    if not curve:
        return None
    return {
        "lengths": [point.length for point in curve],
        "step_ms": [1000 * point.steps.median_seconds for point in curve],
        "peak_memory_gb": [point.peak.allocated_bytes / 1e9 for point in curve],
    }


PARTS: tuple[tuple[str, str, Callable[[Evidence], Any]], ...] = (
    ("ledger", "measured", _ledger),
    ("lengths", "measured", _lengths),
    ("window", "plan", window_summary),
    ("packing", "audit", _packing),
    ("slices", "measured", _slices),
    ("curriculum", "stages", _curriculum),
    ("gpu", "gpu_record", _gpu),
)
