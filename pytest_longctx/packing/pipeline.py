"""The thing under test: the contract's packer with its collator, or a whole trainer, as deliveries."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pytest_longctx.errors import LongctxError, PackingError, naming
from pytest_longctx.packing.admitted import NONE_ADMITTED, Admitted
from pytest_longctx.packing.audit import Audit, Delivery, Expected, audit, grouped
from pytest_longctx.packing.batch import read_row
from pytest_longctx.packing.collators import SHIPPED, build_collator
from pytest_longctx.packing.packers import joined, shipped_packers
from pytest_longctx.packing.trainers import TRAINERS, TrainerRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_longctx.contract import Contract
    from pytest_longctx.contract.stages import PackingSection
    from pytest_longctx.dataset import Dataset
    from pytest_longctx.extensions import Extensions
    from pytest_longctx.tokens.ledger import Samples
    from pytest_longctx.tokens.tokenizer import Tokenizer
    from pytest_longctx.window import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Pipeline:
    """What delivers, its name in messages, and what it should deliver.

    `window` is the trainer's own limit in tokens; None where the contract's capacity is handed to the packer.
    `own_padding` is the id that a trainer pads with, None where it does not tell.
    `make_batch` gives the batch of some samples packed together, as the isolation probe asks for it.
    """

    maker: str
    expected: Expected
    deliver: Callable[[], Iterable[Delivery]]
    make_batch: Callable[[list[Mapping[str, Any]]], Mapping[str, Any]]
    window: Callable[[], int | None] = lambda: None
    own_padding: Callable[[], int | None] = lambda: None

    def pad_token_id(self) -> int:
        """What rows are padded with: the trainer's own id, else the contract's tokenizer's."""
        own = self.own_padding()
        return self.expected.pad_token_id if own is None else own

    def audit(self, samples: Samples) -> Audit:
        """Run it once and check all that comes.

        Raises:
            PackingError: naming the packer, collator or trainer that failed; or there is nothing to deliver.
        """
        if not self.expected.fed.any():
            raise PackingError(NONE_ADMITTED)
        expected = replace(self.expected, pad_token_id=self.pad_token_id())
        return audit(guarded(self.deliver, self.maker), samples, expected, self.maker)


def guarded(deliver: Callable[[], Iterable[T]], maker: str) -> Iterator[T]:
    """Code under test may raise anything, at any time."""
    with naming(maker, PackingError):
        yield from deliver()


def build_pipeline(
    contract: Contract,
    terms: PackingSection,
    dataset: Dataset,
    samples: Samples,
    plan: Plan | None,
    tokenizer: Tokenizer,
    extensions: Extensions,
) -> Pipeline:
    """The pipeline that the contract names.

    Without a window every sample that fits the capacity is admitted.
    """
    capacity = contract.max_tokens_per_bin or 0
    total = samples.ledger.total.astype(np.int64)
    lengths = plan.length if plan is not None else np.where(total <= capacity, total, 0)
    fed = np.ones(len(lengths), dtype=np.bool_) if terms.feed_mode == "all" else lengths > 0
    pad_token_id = _pad_token_id(tokenizer, terms.collator.config)
    expected = Expected(
        lengths, fed, capacity, terms.batch_size, len(tokenizer.backend), terms.row_stride, pad_token_id
    )
    packers = {**shipped_packers(terms.map_kwargs.model_dump(exclude_none=True)), **extensions.packers}
    packer = partial(_named("packer", terms.packer.name, packers), **terms.packer.config)
    collate = _collator(terms, pad_token_id, extensions)
    admitted = Admitted(samples, np.where(fed, total, 0) if terms.feed_mode == "all" else lengths)
    if terms.trainer is None:
        maker = f"{terms.packer.name} + {terms.collator.name}"
        names = (terms.packer.name, terms.collator.name)
        parts = (packer, collate, admitted, capacity, terms.batch_size, names)
        apart = terms.packer.name == "none"
        return Pipeline(
            maker,
            expected,
            lambda: packed_deliveries(*parts),
            lambda rows: _collated(collate, batch_rows(rows, apart=apart), f"collator {names[1]}"),
        )
    request = TrainerRequest(
        contract=contract,
        terms=terms,
        dataset=dataset,
        samples=samples,
        fed=np.where(fed, total, 0),
        planned=lengths,
        tokenizer=tokenizer,
        pack=lambda: packer(admitted, capacity),
        collate=collate,
    )
    adapter = _named("trainer", terms.trainer.name, {**TRAINERS, **extensions.trainers})
    return trainer_pipeline(adapter, request, terms.trainer.name, expected)


def trainer_pipeline(
    adapter: Callable[[TrainerRequest], Any], request: TrainerRequest, name: str, expected: Expected
) -> Pipeline:
    """The pipeline of a trainer; whatever it raises or lacks is told by its name."""
    with naming(f"trainer {name}", PackingError):
        trainer = adapter(request)
        maker = trainer.maker

    def call(method: str, *arguments: Any) -> Any:
        with naming(f"{maker}: {method}()", PackingError):
            function = getattr(trainer, method, None)
            if not callable(function):
                raise PackingError(f"{maker}: {method} is a {type(function).__name__}, expected a method")
            return function(*arguments)

    def padding() -> Any:
        with naming(f"{maker}: pad_token_id", PackingError):
            return getattr(trainer, "pad_token_id", None)

    return Pipeline(
        maker,
        expected,
        lambda: call("deliver"),
        lambda rows: _collated(partial(call, "make_batch"), rows, f"{maker}: make_batch()"),
        lambda: _whole(call("window"), f"{maker}: window() gave", "a whole number of tokens"),
        lambda: _whole(padding(), f"{maker}: pad_token_id is", "the id of a token"),
    )


def _whole(found: Any, told: str, wanted: str) -> int | None:
    if found is None or (isinstance(found, int | np.integer) and not isinstance(found, bool)):
        return None if found is None else int(found)
    kind = type(found).__name__
    raise PackingError(f"{told} a {kind}, {found!r}; expected {wanted}, or None")


def batch_rows(samples: list[Mapping[str, Any]], *, apart: bool) -> list[dict[str, Any]]:
    """Samples as the rows of one batch: each its own, or all of them one packed row."""
    if apart:
        return [dict(joined(samples, [place])) for place in range(len(samples))]
    return [dict(joined(samples, range(len(samples))))]


def _pad_token_id(tokenizer: Tokenizer, config: Mapping[str, Any]) -> int:
    pad, eos = tokenizer.backend.pad_token_id, tokenizer.backend.eos_token_id
    own = config.get("pad_token_id")  # a collator that cannot use it says so itself
    return own if type(own) is int else int(pad if pad is not None else eos or 0)


def _collator(terms: PackingSection, pad_token_id: int, extensions: Extensions) -> Callable[..., Any]:
    name = terms.collator.name
    registered = _named("collator", name, {**SHIPPED, **extensions.collators})
    if name in extensions.collators:
        return partial(registered, **terms.collator.config)
    return build_collator(name, terms.collator.config, pad_token_id)


def _named(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise LongctxError(f"packing.{kind}: there is no {kind} {name!r}{hint} Known: {', '.join(sorted(known))}")


def packed_deliveries(
    packer: Callable[..., Any],
    collate: Callable[..., Any],
    samples: Sequence[Mapping[str, Any]],
    capacity: int,
    batch_size: int,
    names: tuple[str, str] = ("of yours", "of yours"),
) -> Iterator[Delivery]:
    """Packed rows of a packer, and the batch that a collator makes of every few of them.

    Args:
        names: of packer and collator, for messages.

    Raises:
        PackingError: what the packer or the collator gives cannot be read, or it raises something itself.
    """
    maker = f"packer {names[0]}"
    rows = packer(samples, capacity)
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping):
        raise PackingError(f"{maker} gave {type(rows).__name__}, expected an iterable of packed rows")
    for block in grouped(enumerate(guarded(lambda: rows, maker)), batch_size):
        read = [read_row(row, maker, number) for number, row in block]
        yield Delivery(read, _collated(collate, [dict(row) for _, row in block], f"collator {names[1]}"))


def _collated(
    collate: Callable[..., Any], rows: Sequence[Mapping[str, Any]], maker: str
) -> Mapping[str, Any]:
    with naming(maker, PackingError):
        batch: Mapping[str, Any] = collate(rows)
    if not isinstance(batch, Mapping):
        found = type(batch).__name__
        raise PackingError(f"{maker} gave a {found}, expected a mapping with input_ids and labels")
    return batch
