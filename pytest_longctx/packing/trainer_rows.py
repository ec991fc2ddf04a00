"""The rows as a trainer's own loader hands them on: `datasets` over the contract's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_longctx.dataset import Conversation
from pytest_longctx.errors import import_extra

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_longctx.packing.trainers import TrainerRequest

_BUILDERS = {".parquet": "parquet", ".arrow": "arrow"}


def trainer_dataset(request: TrainerRequest, folder: Path) -> Any:
    """A `datasets.Dataset` of all rows.

    Rows in the trainer's own shape are read by `datasets` itself, from the same files; rows that the contract
    converts or rejects go through the contract's reader.
    """
    dataset, contract = request.dataset, request.contract
    datasets = import_extra("datasets", "trl", "packing.trainer")
    whole = not dataset.converted and dataset.files and not contract.dataset.columns
    if whole:
        rows = load_files(datasets, [str(path) for path in dataset.files], folder)
    else:
        rows = datasets.Dataset.from_list(list(_records(request)))
    kwargs = contract.tokenizer.template_kwargs if contract.tokenizer else {}
    return rows.map(lambda _: {"chat_template_kwargs": kwargs}) if kwargs else rows


def load_files(datasets: Any, files: list[str], folder: Path) -> Any:
    """What `load_dataset` makes of files of one kind; its caches go to `folder`."""
    ending = "." + files[0].removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]
    builder = _BUILDERS.get(ending, "json")
    return datasets.load_dataset(builder, data_files=files, split="train", cache_dir=str(folder / "datasets"))


def _records(request: TrainerRequest) -> Iterator[dict[str, Any]]:
    for item in request.dataset:
        if isinstance(item, Conversation):
            yield {name: value for name in _FIELDS if (value := getattr(item, name)) is not None}


_FIELDS = ("messages", "prompt", "completion", "text", "input_ids", "labels", "tools")
