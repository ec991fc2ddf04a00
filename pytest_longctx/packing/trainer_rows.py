"""The rows as a trainer's own loader hands them on: `datasets` over the contract's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_longctx.dataset import Conversation
from pytest_longctx.errors import import_extra

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_longctx.packing.trainers import TrainerRequest

# TRL unpacks this column, but takes None for every other one.
_ABSENT: dict[str, Any] = {"chat_template_kwargs": {}}
_BUILDERS = {".parquet": "parquet", ".arrow": "arrow"}


def trainer_dataset(request: TrainerRequest, folder: Path) -> Any:
    """A `datasets.Dataset` of all rows.

    Rows in the trainer's own shape are read by `datasets` itself, from the same files; rows that the contract
    converts or rejects go through the contract's reader.
    """
    dataset, contract = request.dataset, request.contract
    datasets = import_extra("datasets", "trl", "packing.trainer")
    own = (
        not dataset.converted
        and dataset.files
        and not contract.dataset.columns
        and not contract.dataset.sample
    )
    rows = load_files(datasets, [str(path) for path in dataset.files], folder) if own else None
    if rows is None:
        records = list(_records(request))
        names = list(dict.fromkeys(name for record in records for name in record))
        records = [{name: record.get(name, _ABSENT.get(name)) for name in names} for record in records]
        # Arguments of calls and schemas of tools have other keys in every row.
        rows = datasets.Dataset.from_list(records, on_mixed_types="use_json")
    kwargs = request.tokenizer.template_kwargs
    return rows.map(lambda row: _with_template_kwargs(row, kwargs)) if kwargs else rows


def _with_template_kwargs(row: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The contract's template variables in the column that TRL reads them from; a row's own go first."""
    return {"chat_template_kwargs": {**kwargs, **(row.get("chat_template_kwargs") or {})}}


def load_files(datasets: Any, files: list[str], folder: Path) -> Any:
    """What `load_dataset` makes of files; its caches go to `folder`.

    None where it cannot read them together: files of several kinds, or with other columns.
    """
    endings = {"." + file.removesuffix(".gz").removesuffix(".zst").rpartition(".")[2] for file in files}
    builders = {_BUILDERS.get(ending, "json") for ending in endings}
    if len(builders) > 1:
        return None
    cache = str(folder / "datasets")
    try:
        return datasets.load_dataset(builders.pop(), data_files=files, split="train", cache_dir=cache)
    # The loaders of `datasets` raise errors of any type.
    except Exception:
        return None


def _records(request: TrainerRequest) -> Iterator[dict[str, Any]]:
    for item in request.dataset:
        if isinstance(item, Conversation):
            row = {name: value for name in _FIELDS if (value := getattr(item, name)) is not None}
            yield {**row, "chat_template_kwargs": item.template_kwargs} if item.template_kwargs else row


_FIELDS = ("messages", "prompt", "completion", "text", "input_ids", "labels", "tools")
