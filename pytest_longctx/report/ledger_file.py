"""The ledger as a Parquet file: one row a sample, for general data-quality tools."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.window import DECISIONS, REASONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from pytest_longctx.evidence import Evidence

BLOCK = 1 << 16
# Column → (Arrow type, nullable, what it holds); names and types stay within a version.
COLUMNS: dict[str, tuple[str, bool, str]] = {
    "contract": ("string", False, "the contract's path"),
    "id": ("string", False, "the sample's id"),
    "file": ("string", True, "the file that its row stands in"),
    "slice": ("string", True, "value of the slice column; null where the contract names none"),
    "template": ("int32", False, "tokens of the template"),
    "prompt": ("int32", False, "tokens of the prompt: system, user and tool texts, unsupervised answers"),
    "supervised": ("int32", False, "tokens in the loss, before the window"),
    "answer": ("int32", False, "supervised tokens that come from a message's text"),
    "total": ("int32", False, "all tokens"),
    "turns": ("int32", False, "supervised spans"),
    "decision": ("string", True, "fit, truncate or overflow; null without a section window"),
    "kept": ("int32", True, "supervised tokens that the window keeps; null without a section window"),
    "packed_row": ("int32", True, "the packed row that holds it; null where it is in none"),
    "reasons": ("list<string>", False, "why it overflows, and the checks that name it as an offender"),
}


def schema() -> pa.Schema:
    """The columns as an Arrow schema, with their meaning as field metadata."""
    import pyarrow as pa

    types = {"string": pa.string(), "int32": pa.int32(), "list<string>": pa.list_(pa.string())}
    fields = [
        pa.field(name, types[kind], nullable, {"description": meaning})
        for name, (kind, nullable, meaning) in COLUMNS.items()
    ]
    return pa.schema(fields, {"longctx_ledger": "1"})


def part_path(target: Path, contract: Path) -> Path:
    """Where one process writes the ledger of one contract, beside the target, until the run is over."""
    key = hashlib.sha256(os.fsencode(contract)).hexdigest()[:12]
    return target.with_name(f".{target.name}.{key}.{os.getpid()}.part")


def write_part(evidence: Evidence, target: Path) -> Path | None:
    """Write the ledger of one contract; None where its samples were not measured.

    Raises:
        OSError: the folder cannot be made or written.
    """
    import pyarrow.parquet as pq

    if "measured" not in vars(evidence):
        return None
    path = part_path(target, evidence.contract.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema(), compression="zstd") as writer:
        for table in _blocks(evidence):
            writer.write_table(table)
    return path


def combine(parts: Sequence[Path], target: Path) -> int:
    """One file of all parts, in their order, in place at once; the parts go. The number of samples."""
    import pyarrow.parquet as pq

    target.parent.mkdir(parents=True, exist_ok=True)
    whole, rows = target.with_name(f".{target.name}.{os.getpid()}.whole"), 0
    try:
        with pq.ParquetWriter(whole, schema(), compression="zstd") as writer:
            for part in parts:
                for batch in pq.ParquetFile(part).iter_batches(BLOCK):
                    writer.write_batch(batch)
                    rows += batch.num_rows
        whole.replace(target)
    finally:
        for path in (whole, *parts):
            path.unlink(missing_ok=True)
    return rows


def _or_null(rows: NDArray[np.int32]) -> list[int | None]:
    return [None if row < 0 else row for row in rows.tolist()]


def _blocks(evidence: Evidence) -> Iterator[pa.Table]:
    """The ledger in tables of bounded size."""
    import pyarrow as pa

    ledger = evidence.measured.ledger
    plan = evidence.plan if evidence.contract.window is not None else None
    packed = evidence.audit.packed_row if "audit" in vars(evidence) else None
    offences = _offences(evidence)
    files = _files(evidence)
    turns = np.diff(ledger.turn_offsets)
    sliced = evidence.contract.dataset.slices is not None
    for begin in range(0, len(ledger), BLOCK):
        block = slice(begin, begin + BLOCK)
        ids = ledger.ids[block]
        reasons = plan.reason[block].tolist() if plan is not None else [0] * len(ids)
        columns: dict[str, Any] = {
            "contract": [evidence.contract.display] * len(ids),
            "id": ids,
            "file": [next(files) for _ in ids],
            "slice": ledger.slices[block] if sliced else [None] * len(ids),
            **{
                name: getattr(ledger, name)[block]
                for name in ("template", "prompt", "supervised", "answer", "total")
            },
            "turns": turns[block].astype(np.int32),
            "decision": [DECISIONS[code] for code in plan.decision[block].tolist()]
            if plan
            else [None] * len(ids),
            "kept": plan.kept[block].astype(np.int32) if plan else [None] * len(ids),
            "packed_row": _or_null(packed[block]) if packed is not None else [None] * len(ids),
            "reasons": [
                [*([f"window::{REASONS[code]}"] if code else []), *offences.get(name, ())]
                for name, code in zip(ids, reasons, strict=True)
            ],
        }
        yield pa.table(columns, schema=schema())


def _files(evidence: Evidence) -> Iterator[str | None]:
    """The file of every sample: rows are read once more, in step with the ledger, in bounded memory."""
    wanted = iter(evidence.measured.ledger.ids)
    rows = iter(evidence.dataset)
    for name in wanted:
        found = next((row for row in rows if row.id == name), None)
        yield found.file if found is not None else None


def _offences(evidence: Evidence) -> dict[str, list[str]]:
    """Sample id → the checks that name it, as far as they keep their witnesses."""
    offences: dict[str, list[str]] = {}
    for check, witnesses in evidence.measured.findings.witnesses.items():
        for witness in witnesses:
            offences.setdefault(witness.id, []).append(check)
    return offences
