"""Real trainers, built on CPU around a tiny random model: the batches of their own dataloaders."""

from __future__ import annotations

import copy
import random
import shutil
import tempfile
import warnings
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.errors import LongctxError, PackingError, import_extra
from pytest_longctx.packing.admitted import Admitted
from pytest_longctx.packing.audit import Delivery, grouped
from pytest_longctx.packing.packers import _arrow_rows, quiet, write_arrow
from pytest_longctx.packing.trainer_rows import trainer_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from pytest_longctx.contract import Contract
    from pytest_longctx.contract.stages import PackingSection
    from pytest_longctx.dataset import Dataset
    from pytest_longctx.tokens.ledger import Samples
    from pytest_longctx.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class TrainerRequest:
    """What a trainer adapter is given.

    `fed` int64[n]: tokens of each sample that the trainer gets, uncut; `planned` int64[n]: what the window
    leaves of it. `pack` and `collate` are the contract's packer over the planned samples and its collator.
    """

    contract: Contract
    terms: PackingSection
    dataset: Dataset
    samples: Samples
    fed: NDArray[np.int64]
    planned: NDArray[np.int64]
    tokenizer: Tokenizer
    pack: Callable[[], Iterable[Mapping[str, Any]]]
    collate: Callable[[list[dict[str, Any]]], Mapping[str, Any]]

    @property
    def config(self) -> dict[str, Any]:
        """The user's own settings of the trainer."""
        return dict(self.terms.trainer.config) if self.terms.trainer else {}


class _OnCpu:
    """A trainer made once, in a temporary folder that goes with this object."""

    name = ""

    def __init__(self, request: TrainerRequest) -> None:
        self.request = request
        self.maker = f"trainer {self.name}"
        self.folder = tempfile.mkdtemp(prefix="longctx-")
        self._clean = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    @cached_property
    def trainer(self) -> Any:
        """The trainer, built as a script would build it."""
        with _undisturbed(), quiet(import_extra("datasets", "trl", self.maker)):
            try:
                return self.build()
            except LongctxError:
                raise
            # A trainer may refuse the user's settings or rows with any exception.
            except Exception as error:
                raise PackingError(
                    f"{self.maker} cannot be built: {type(error).__name__}: {error}"
                ) from error

    def build(self) -> Any:
        """Build the trainer."""
        raise AssertionError("each adapter builds its own trainer")

    def deliver(self) -> Iterator[Delivery]:
        """The prepared rows where they can be seen, then every batch of one epoch."""
        trainer = self.trainer
        yield from self.rows(trainer)
        with _undisturbed():
            yield from (Delivery(None, batch) for batch in trainer.get_train_dataloader())

    def rows(self, trainer: Any) -> Iterator[Delivery]:
        """Packed rows that the trainer made; none by default."""
        return iter(())

    def window(self) -> int | None:
        """The trainer's own limit in tokens, None where it has none."""
        return None

    def arguments(self, **fixed: Any) -> dict[str, Any]:
        """The user's settings, on CPU, quiet, and in the temporary folder."""
        own = {
            "per_device_train_batch_size": self.request.terms.batch_size,
            "bf16": False,
            **self.request.config,
        }
        quiet_run = {"output_dir": self.folder, "use_cpu": True, "report_to": "none", "disable_tqdm": True}
        return {**own, **quiet_run, **fixed}


class TrlSft(_OnCpu):
    """TRL's SFTTrainer, from the rows as its loader reads them to the batches of its dataloader."""

    name = "trl_sft"

    def build(self) -> Any:
        """Build an SFTTrainer."""
        trl = import_extra("trl", "trl", f"packing.trainer: {self.name}")
        backend = copy.deepcopy(self.request.tokenizer.backend)
        backend.chat_template = self.request.tokenizer.template
        return trl.SFTTrainer(
            model=tiny_model(len(backend)),
            args=trl.SFTConfig(**self.arguments()),
            train_dataset=self._dataset(),
            processing_class=backend,
        )

    def _dataset(self) -> Any:
        if self.request.terms.feed_mode == "all":
            return trainer_dataset(self.request, Path(self.folder))
        datasets = import_extra("datasets", "trl", self.maker)
        file = Path(self.folder, "samples.arrow")
        write_arrow(Admitted(self.request.samples, self.request.planned), file)
        return datasets.Dataset.from_file(str(file))

    def rows(self, trainer: Any) -> Iterator[Delivery]:
        """The rows of the prepared dataset, packed or not."""
        yield from (Delivery(block, None) for block in grouped(_arrow_rows(trainer.train_dataset), 64))

    def window(self) -> int | None:
        """SFTConfig's max_length."""
        limit = self.trainer.args.max_length
        return None if limit is None else int(limit)


class Transformers(_OnCpu):
    """A plain transformers Trainer over the contract's packer, with the contract's collator."""

    name = "transformers"

    def build(self) -> Any:
        """Build a Trainer on the packed rows."""
        import_extra("torch", "trl", f"packing.trainer: {self.name}")
        transformers = import_extra("transformers", "trl", f"packing.trainer: {self.name}")
        backend = self.request.tokenizer.backend
        rows = [
            {name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()}
            for row in self.request.pack()
        ]
        return transformers.Trainer(
            model=tiny_model(len(backend)),
            args=transformers.TrainingArguments(**self.arguments()),
            train_dataset=import_extra("datasets", "trl", self.maker).Dataset.from_list(rows),
            data_collator=self.request.collate,
        )


TRAINERS: dict[str, Callable[[TrainerRequest], _OnCpu]] = {"trl_sft": TrlSft, "transformers": Transformers}


def tiny_model(vocabulary: int) -> Any:
    """A random causal model of one narrow layer; data preparation does not depend on its size."""
    transformers = import_extra("transformers", "trl", "packing.trainer")
    config = transformers.Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
    )
    return transformers.AutoModelForCausalLM.from_config(config)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Trainers seed every generator and warn much; neither may reach the user's own tests."""
    import torch

    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])
