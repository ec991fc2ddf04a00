"""Mutants: broken packers, collators and trainers, each with exactly the checks that must fail on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pytest_longctx.packing.audit import Delivery
from pytest_longctx.packing.pipeline import packed_deliveries
from pytest_longctx.testing.conformance import COLLATORS, judge, reference_packer
from pytest_longctx.testing.examples import EXAMPLE, Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_longctx.witness import Witness

Stage = Literal["packer", "collator", "trainer", "window"]


@dataclass(frozen=True)
class Mutant:
    """A fault, put into what a sound pipeline delivers.

    stage: what it breaks. A packer's takes the list of packed rows and gives the broken list; a collator's
    takes one batch of numpy arrays; a trainer's takes the list of an epoch's deliveries; a window's takes the
    contract's limit in tokens and gives the trainer's own, None for no limit. checks: those that must fail.
    """

    name: str
    stage: Stage
    apply: Callable[[Any], Any]
    checks: frozenset[str]
    collator: str = "flat"
    batch_size: int = 1
    case: Case = EXAMPLE

    def failing(self, packer: Callable[..., Any] = reference_packer) -> dict[str, list[Witness]]:
        """The checks that fail when the fault is put into this packer's pipeline."""
        case = replace(self.case, batch_size=self.batch_size)
        window = partial(self.apply, case.capacity) if self.stage == "window" else None
        return judge(self.deliveries(packer), case, self.name, window)

    def deliveries(self, packer: Callable[..., Any] = reference_packer) -> Iterator[Delivery]:
        """What the broken pipeline delivers."""
        collate = COLLATORS[self.collator]
        broken_packer, broken_collate = packer, collate
        if self.stage == "packer":
            broken_packer = self.packer(packer)
        if self.stage == "collator":
            broken_collate = self.collate(collate)
        parts = (self.case.admitted, self.case.capacity, self.batch_size)
        found = packed_deliveries(broken_packer, broken_collate, *parts)
        return found if self.stage != "trainer" else iter(self.apply(self._epoch(list(found))))

    def packer(self, packer: Callable[..., Any]) -> Callable[..., Any]:
        """A packer with the fault in it."""
        return lambda samples, max_tokens_per_bin: self.apply(
            [dict(row) for row in packer(samples, max_tokens_per_bin)]
        )

    def collate(self, collator: Callable[..., Any]) -> Callable[..., Any]:
        """A collator with the fault in it."""
        return lambda rows: self.apply(dict(collator(rows)))

    @staticmethod
    def _epoch(found: list[Delivery]) -> list[Delivery]:
        """A trainer shows its prepared rows first, then the batches of an epoch."""
        rows = [row for delivery in found for row in delivery.rows or ()]
        return [Delivery(rows, None), *(Delivery(None, delivery.batch) for delivery in found)]


def packer_mutant(*checks: str, **settings: Any) -> Callable[[Callable[[Any], Any]], Mutant]:
    """Make a mutant of a function from packed rows to packed rows."""
    return _mutant("packer", checks, settings)


def collator_mutant(*checks: str, **settings: Any) -> Callable[[Callable[[Any], Any]], Mutant]:
    """Make a mutant of a function from a batch to a batch."""
    return _mutant("collator", checks, settings)


def trainer_mutant(*checks: str, **settings: Any) -> Callable[[Callable[[Any], Any]], Mutant]:
    """Make a mutant of a function from an epoch's deliveries to deliveries."""
    return _mutant("trainer", checks, settings)


def window_mutant(*checks: str, **settings: Any) -> Callable[[Callable[[int], int | None]], Mutant]:
    """Make a mutant of a function from the contract's limit to the trainer's own."""
    return _mutant("window", checks, settings)


def _mutant(
    stage: Stage, checks: tuple[str, ...], settings: dict[str, Any]
) -> Callable[[Callable[[Any], Any]], Mutant]:
    return lambda apply: Mutant(apply.__name__, stage, apply, frozenset(checks), **settings)
