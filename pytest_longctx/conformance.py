"""Whether the installed TRL packs and collates as this package expects: nine checks on three tiny samples."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from itertools import accumulate
from typing import Any

STRATEGY = "bfd"
MAX_LENGTH = 6
# Four, three and two tokens. All ids differ, so that a token names its sample. The first label of the second
# is supervised, so that a boundary that is not masked shows.
SAMPLES = (
    {"input_ids": [11, 12, 13, 14], "labels": [-100, 12, 13, 14]},
    {"input_ids": [21, 22, 23], "labels": [21, 22, 23]},
    {"input_ids": [31, 32], "labels": [-100, 32]},
)
_VARLEN_FIELDS = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "position_ids", "seq_idx")
_PACKAGES = ("trl", "transformers", "torch", "datasets")


def check_long_context_framework_conformance() -> dict[str, Any]:
    """Run TRL's `pack_dataset` and padding-free collator and check what comes out.

    Returns `status` (`passed`, or `skipped` with a `reason` when TRL is not installed), `versions`, `checks`
    (nine booleans by name), `packing_strategy`, `max_length`, `packed_row_lengths` and `sequence_lengths`
    (tokens of each segment, by row). A check that fails raises AssertionError with its name.
    """
    common: dict[str, Any] = {"packing_strategy": STRATEGY, "max_length": MAX_LENGTH}
    try:
        for package in _PACKAGES:
            importlib.import_module(package)
    except ImportError as error:
        nothing: dict[str, Any] = {"checks": {}, "packed_row_lengths": [], "sequence_lengths": []}
        reason = f"TRL cannot be imported ({error}): pip install 'pytest-longctx[trl]'"
        return {"status": "skipped", "reason": reason, "versions": {}, **common, **nothing}
    rows = _pack()
    checks = conformance_checks(rows, _collate(rows))
    failed = [name for name, passed in checks.items() if not passed]
    if failed:
        raise AssertionError(f"TRL {version('trl')} does not conform: {', '.join(failed)}")
    return {
        "status": "passed",
        "versions": {package: version(package) for package in _PACKAGES},
        "checks": checks,
        **common,
        "packed_row_lengths": [len(row["input_ids"]) for row in rows],
        "sequence_lengths": [list(row["seq_lengths"]) for row in rows],
    }


def _pack() -> list[dict[str, Any]]:
    import datasets
    from trl.data_utils import pack_dataset

    loud = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        samples = datasets.Dataset.from_list([dict(sample) for sample in SAMPLES])
        return [dict(row) for row in pack_dataset(samples, MAX_LENGTH, STRATEGY)]
    finally:
        if loud:
            datasets.enable_progress_bars()


def _collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    batch = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)(rows)
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in batch.items()}


def conformance_checks(rows: list[dict[str, Any]], batch: dict[str, Any]) -> dict[str, bool]:
    """Judge packed rows and their collated batch (plain lists) against `SAMPLES`.

    What is expected is made from the samples alone, in the order in which their first tokens stand in the
    rows; no check relies on what another one judges.
    """
    tokens = [token for row in rows for token in row["input_ids"]]
    by_start = {sample["input_ids"][0]: sample for sample in SAMPLES}
    order = [by_start[token] for token in tokens if token in by_start]
    lengths = [len(sample["input_ids"]) for sample in order]
    ends = [0, *accumulate(lengths)]
    ids = [token for sample in order for token in sample["input_ids"]]
    labels = [label for sample in order for label in sample["labels"]]
    collated = [label for row in batch.get("labels", []) for label in row]
    positions = [place for length in lengths for place in range(length)]
    segments = [index for index, length in enumerate(lengths) for _ in range(length)]
    inner = [place for place in range(len(labels)) if place not in ends]
    packed_labels = [label for row in rows for label in row.get("labels", [])]
    kept = len(collated) == len(labels) and all(collated[place] == labels[place] for place in inner)
    return {
        "rows_within_capacity": all(len(row["input_ids"]) <= MAX_LENGTH for row in rows),
        "sample_identity": sorted(tokens) == sorted(id_ for sample in SAMPLES for id_ in sample["input_ids"]),
        "token_order": tokens == ids and batch.get("input_ids") == [ids],
        "labels_preserved": packed_labels == labels and kept,
        "position_ids": batch.get("position_ids") == [positions],
        "cumulative_boundaries": batch.get("cu_seq_lens_q") == batch.get("cu_seq_lens_k") == ends,
        "sequence_indices": batch.get("seq_idx") == [segments],
        "boundary_labels_masked": all(collated[start : start + 1] == [-100] for start in ends[:-1]),
        "padding_free_fields": all(name in batch for name in _VARLEN_FIELDS)
        and "attention_mask" not in batch,
    }
