"""Try a packer or a collator: which checks fail on what it delivers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_longctx.packing.audit import audit
from pytest_longctx.packing.collators import block_mask, padded
from pytest_longctx.packing.invariants import effective_window
from pytest_longctx.packing.packers import shipped_packers
from pytest_longctx.packing.pipeline import guarded, packed_deliveries
from pytest_longctx.testing.examples import EXAMPLE, Case, flat
from pytest_longctx.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_longctx.packing.audit import Delivery

Packer = "Callable[..., Iterable[Mapping[str, Any]]]"

COLLATORS: dict[str, Callable[..., Any]] = {"padded": padded, "block_mask": block_mask, "flat": flat}
BATCH_SIZES = (1, 3)


def reference_packer(samples: Any, max_tokens_per_bin: int) -> Iterable[Mapping[str, Any]]:
    """Exact first-fit decreasing."""
    rows: Iterable[Mapping[str, Any]] = shipped_packers({})["ffd"](samples, max_tokens_per_bin)
    return rows


def failing_checks(
    packer: Callable[..., Any] = reference_packer,
    collator: Callable[..., Any] = padded,
    case: Case = EXAMPLE,
    batch_size: int = 1,
) -> dict[str, list[Witness]]:
    """The checks of section `packing` that fail on what a packer and a collator deliver, with witnesses.

    Raises:
        PackingError: what they deliver cannot be read, or they raise something.
    """
    deliveries = packed_deliveries(packer, collator, case.admitted, case.capacity, batch_size)
    return judge(deliveries, replace(case, batch_size=batch_size))


def judge(
    deliveries: Iterable[Delivery],
    case: Case,
    maker: str = "pipeline of yours",
    window: Callable[[], int | None] | None = None,
) -> dict[str, list[Witness]]:
    """The checks that fail on deliveries, with witnesses.

    Args:
        window: a trainer's own limit in tokens, where there is a trainer.
    """
    found = audit(guarded(lambda: deliveries, maker), case.samples, case.expected, maker)
    for check in found.unseen:
        found.add(check, [Witness("packed rows", "each by itself", "run together in batches of one row")])
    if window is not None:
        found.add("effective_window", effective_window(window(), case.capacity))
    return {check: found.witnesses[check] for check in sorted(found.counts) if found.counts[check]}


def assert_packer(
    packer: Callable[..., Any],
    samples: Sequence[Mapping[str, Any]] | None = None,
    max_tokens_per_bin: int | None = None,
) -> None:
    """Assert that a packer holds every invariant, with each collator, in batches of one row and of three.

    Args:
        packer: `(samples, max_tokens_per_bin) -> packed rows`; samples have `input_ids` and `labels`, int64.
        samples: what to pack, by default a small set with equal, cut and short samples.
        max_tokens_per_bin: capacity of a row, by default what suits the default samples.

    Raises:
        AssertionError: naming each check that fails, with its first witnesses.
    """
    case = EXAMPLE if samples is None else Case(samples, max_tokens_per_bin or EXAMPLE.capacity)
    case = case if max_tokens_per_bin is None else replace(case, capacity=max_tokens_per_bin)
    for name, collator in COLLATORS.items():
        for batch_size in BATCH_SIZES:
            found = failing_checks(packer, collator, case, batch_size)
            _refuse(found, f"collator {name}, batches of {batch_size}")


def assert_collator(collator: Callable[..., Any], packer: Callable[..., Any] = reference_packer) -> None:
    """Assert that a collator holds every invariant, in batches of one row and of three.

    Args:
        collator: `(list of packed rows) -> batch`, arrays or tensors. A row has `input_ids`, `labels` and
            `seq_lengths`; the padding id is 0.

    Raises:
        AssertionError: naming each check that fails, with its first witnesses.
    """
    for batch_size in BATCH_SIZES:
        _refuse(failing_checks(packer, collator, EXAMPLE, batch_size), f"batches of {batch_size}")


def _refuse(found: dict[str, list[Witness]], where: str) -> None:
    if found:
        lines = [f"{check}: {_shown(witnesses)}" for check, witnesses in found.items()]
        raise AssertionError("\n".join([f"{len(found)} checks fail ({where})", *lines]))


def _shown(witnesses: list[Witness], most: int = 3) -> str:
    shown = "; ".join(
        f"{w.id}"
        + (f", row {w.row}" if w.row is not None and not w.id.startswith("row ") else "")
        + (f", token {w.position}" if w.position is not None else "")
        + f": expected {w.expected}, found {w.found}"
        + (f" ({w.note})" if w.note else "")
        for w in witnesses[:most]
    )
    return shown + (f"; and {len(witnesses) - most} more" if len(witnesses) > most else "")
