"""Real trainers, built on CPU around a tiny random model: the batches of their own dataloaders."""

from __future__ import annotations

import copy
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import LongctxError, PackingError, import_extra, reason
from pytest_longctx.packing.admitted import NONE_ADMITTED, Admitted
from pytest_longctx.packing.arrow import arrow_rows, write_arrow, write_rows
from pytest_longctx.packing.audit import Delivery, grouped
from pytest_longctx.packing.batch import read_row
from pytest_longctx.packing.packers import joined
from pytest_longctx.packing.trainer_rows import trainer_dataset
from pytest_longctx.packing.undisturbed import undisturbed
from pytest_longctx.tokens.build import MESSAGE_SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy as np
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
    collate: Callable[[list[dict[str, Any]]], dict[str, Any]]

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
        for module in ("torch", "datasets", *self.modules):
            import_extra(module, "trl", f"packing.trainer: {self.name}")
        with undisturbed():
            try:
                return self.build()
            except LongctxError:
                raise
            # A trainer may refuse the user's settings or rows with any exception.
            except Exception as error:
                text = f"{type(error).__name__}: {reason(error)}"
                raise PackingError(f"{self.maker} cannot be built: {text}") from error

    modules: tuple[str, ...] = ()

    def build(self) -> Any:
        """Build the trainer."""
        raise AssertionError("each adapter builds its own trainer")

    def deliver(self) -> Iterator[Delivery]:
        """The rows of the trainer's dataset, then every batch of one epoch with the trainer's own divisor."""
        trainer = self.trainer
        prepared = enumerate(arrow_rows(trainer.train_dataset))
        for block in grouped(prepared, 64):
            yield Delivery([read_row(row, self.maker, number) for number, row in block], None)
        with undisturbed():
            import_extra("transformers", "trl", self.maker).set_seed(trainer.args.seed)
            for batch in trainer.get_train_dataloader():
                yield Delivery(None, batch, _normalizer(trainer, batch))

    def window(self) -> int | None:
        """The trainer's own limit in tokens, None where it has none."""
        return None

    @property
    def pad_token_id(self) -> int | None:
        """What the trainer pads with, None where neither its collator nor its tokenizer tells."""
        parts = self.trainer.data_collator, getattr(self.trainer, "processing_class", None)
        told = (getattr(part, "pad_token_id", None) for part in parts)
        return next((int(found) for found in told if found is not None), None)

    def make_batch(self, samples: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        """What the trainer's collator makes of samples that it packed together, or of unpacked ones."""
        rows = (
            [joined(samples, range(len(samples)))]
            if self.packs()
            else [joined([row], [0]) for row in samples]
        )
        with undisturbed():
            batch: Mapping[str, Any] = self.trainer.data_collator([dict(row) for row in rows])
        return batch

    def packs(self) -> bool:
        """Whether its rows hold several samples."""
        return self.request.terms.packer.name != "none"

    def arguments(self, **fixed: Any) -> dict[str, Any]:
        """The user's settings, on CPU, quiet, and in the temporary folder."""
        own = {
            "per_device_train_batch_size": self.request.terms.batch_size,
            "bf16": False,
            **self.request.config,
        }
        quiet = {"output_dir": self.folder, "use_cpu": True, "report_to": "none", "disable_tqdm": True}
        return {**own, **quiet, **fixed}


def _normalizer(trainer: Any, batch: Any) -> int | None:
    """The number of targets that the trainer divides the loss of a step of this batch by, where it counts."""
    _, number = trainer.get_batch_samples(iter([batch]), 1, trainer.args.device)
    return None if number is None else int(number)


class TrlSft(_OnCpu):
    """TRL's SFTTrainer, from the rows as its loader reads them to the batches of its dataloader.

    With `feed: admitted` it gets the contract's samples as ids and labels, and does not mask anew.
    """

    name = "trl_sft"
    modules = ("trl",)

    def build(self) -> Any:
        """Build an SFTTrainer."""
        trl = import_extra("trl", "trl", self.maker)
        backend = copy.deepcopy(self.request.tokenizer.backend)
        backend.chat_template = self.request.tokenizer.chat_template
        trainer = trl.SFTTrainer(
            model=tiny_model(len(backend)),
            args=trl.SFTConfig(**self.arguments(**self._fixed())),
            train_dataset=self._dataset(),
            processing_class=backend,
        )
        self._refuse_other_template(trainer)
        return trainer

    def _refuse_other_template(self, trainer: Any) -> None:
        """Raise where the trainer renders chats with a template of its own, not with the contract's."""
        named = self.request.config.get("chat_template_path")
        chats = self.request.terms.feed_mode == "all" and self.request.dataset.shape in MESSAGE_SHAPES
        if named is None or not chats:
            return
        # SFTTrainer takes its own training variant of a template in place of one that marks no answers.
        used = (trainer.processing_class.chat_template, getattr(trainer, "chat_template", None))
        if _text(self.request.tokenizer.template) not in map(_text, used):
            raise PackingError(
                f"{self.maker} uses chat_template_path {named}, the contract another template: set "
                "tokenizer.chat_template to the same file"
            )

    def _fixed(self) -> dict[str, Any]:
        """Settings that stand for the user's own."""
        fixed: dict[str, Any] = (
            {} if self.request.terms.feed_mode == "all" else {"assistant_only_loss": False}
        )
        named = self.request.config.get("chat_template_path")
        if isinstance(named, str) and (file := self.request.contract.resolve(named)).is_file():
            fixed["chat_template_path"] = str(file)  # TRL would look for it in the working folder
        return fixed

    def _dataset(self) -> Any:
        if self.request.terms.feed_mode == "all":
            return trainer_dataset(self.request, Path(self.folder))
        datasets = import_extra("datasets", "trl", self.maker)
        file = Path(self.folder, "samples.arrow")
        write_arrow(Admitted(self.request.samples, self.request.planned), file)
        return datasets.Dataset.from_file(str(file))

    def deliver(self) -> Iterator[Delivery]:
        """As every trainer does.

        Raises:
            PackingError: SFTTrainer kept no row; it drops those that it cuts before any supervised token.
        """
        if not len(self.trainer.train_dataset):
            if not self.request.planned.any():
                raise PackingError(NONE_ADMITTED)
            raise PackingError(
                f"{self.maker} keeps no row: none has a supervised token within its max_length of "
                f"{self.window()} tokens"
            )
        yield from super().deliver()

    def packs(self) -> bool:
        """SFTConfig's packing."""
        return bool(self.trainer.args.packing)

    def window(self) -> int | None:
        """SFTConfig's max_length."""
        limit = self.trainer.args.max_length
        return None if limit is None else int(limit)


class Transformers(_OnCpu):
    """A plain transformers Trainer over the contract's packer, with the contract's collator.

    It has no limit of its own; the packer is given the contract's.
    """

    name = "transformers"
    modules = ("transformers", "accelerate")

    def build(self) -> Any:
        """Build a Trainer on the packed rows."""
        import transformers

        backend = self.request.tokenizer.backend
        file = Path(self.folder, "rows.arrow")
        write_rows(self.request.pack(), file)
        return transformers.Trainer(
            model=tiny_model(len(backend)),
            args=transformers.TrainingArguments(**self.arguments()),
            train_dataset=import_extra("datasets", "trl", self.maker).Dataset.from_file(str(file)),
            data_collator=self.request.collate,
        )


def _text(template: Any) -> Any:
    """A template as jinja reads it: one line break at its end is none."""
    return template.removesuffix("\n") if isinstance(template, str) else template


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
