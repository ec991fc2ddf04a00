"""The chain rows → samples → ledger → plan → packed rows → batches → layouts, each link made once, lazily."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from pytest_longctx.errors import LongctxError
from pytest_longctx.extensions import Extensions
from pytest_longctx.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_longctx.contract import Contract
    from pytest_longctx.curriculum import Stage
    from pytest_longctx.dataset import Dataset
    from pytest_longctx.gpu import Record
    from pytest_longctx.isolation import ProbeResult
    from pytest_longctx.packing.audit import Audit
    from pytest_longctx.packing.pipeline import Pipeline
    from pytest_longctx.tokens.build import Measured
    from pytest_longctx.tokens.sample import Sampler
    from pytest_longctx.tokens.second_look import SecondLook
    from pytest_longctx.tokens.tokenizer import Tokenizer
    from pytest_longctx.window import Plan, WindowSamples

T = TypeVar("T")


class BrokenLinkError(LongctxError):
    """A link of the chain could not be made; `cause` is one and the same for all checks that need it.

    A cause that is no LongctxError is a fault of the engine.
    """

    def __init__(self, cause: Exception) -> None:
        self.cause = cause
        super().__init__(str(cause))


class link(Generic[T]):  # noqa: N801 - a decorator, used like functools.cached_property
    """A property made once, in success as in failure."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> link[T]: ...
    @overload
    def __get__(self, instance: Any, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> T | link[T]:
        if instance is None:
            return self
        if self._name in instance.failures:
            raise instance.failures[self._name]
        try:
            value = instance.__dict__[self._name] = self._make(instance)
        except Exception as error:
            broken = error if isinstance(error, BrokenLinkError) else BrokenLinkError(error)
            instance.failures[self._name] = broken
            raise broken from None
        return value


class Evidence:
    """All that the checks of one contract look at."""

    def __init__(
        self,
        contract: Contract,
        extensions: Extensions | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.contract = contract
        self.settings = settings or Settings()
        self.extensions = extensions or Extensions()
        self.failures: dict[str, BrokenLinkError] = {}
        self._of_slices: dict[str, Evidence] = {}

    @link
    def tokenizer(self) -> Tokenizer:
        """The tokenizer and its template."""
        from pytest_longctx.tokens.tokenizer import load_tokenizer

        return load_tokenizer(self.contract)

    @link
    def dataset(self) -> Dataset:
        """The rows."""
        from pytest_longctx.dataset import open_dataset

        return open_dataset(self.contract.dataset, self.contract, self.extensions.datasets)

    @link
    def measured(self) -> Measured:
        """Samples, ledger and findings of one pass over the rows."""
        from pytest_longctx.engine import known_entries
        from pytest_longctx.slices import drawn
        from pytest_longctx.tokens.build import measure

        dataset, drawing = self.dataset, self.contract.dataset.sample
        if dataset.shape == "lengths" and self.contract.dataset.shape == "auto":
            raise LongctxError(
                "the rows are lengths (prompt_tokens, supervised_tokens): checks of tokenizer, texts and "
                "labels have nothing to look at. Write dataset.shape: lengths, and none of them is made"
            )
        tokenizer = None if self.contract.tokenizer is None else self.tokenizer
        rows, population = drawn(dataset, drawing.rows, drawing.seed) if drawing else (iter(dataset), None)
        with known_entries(self.contract, dataset, tokenizer, self.settings) as known:
            watched = self.settings.watch(rows, "rows")
            measured = measure(watched, dataset.shape, tokenizer, self.contract.supervision, known=known)
        return replace(measured, population=population if population != measured.rows else None)

    @link
    def some_samples(self) -> int:
        """How many samples there are; none is no evidence for anything.

        Raises:
            LongctxError: there is none.
        """
        if not len(self.measured.ledger):
            raise LongctxError("no row became a sample: see dataset::rows")
        return len(self.measured.ledger)

    @link
    def slice_counts(self) -> Counter[str]:
        """Rows per value of the slice column; empty where the contract names none."""
        from pytest_longctx.slices import slice_values

        column = self.contract.dataset.slices
        return slice_values(self.dataset, column) if column else Counter()

    @property
    def slices(self) -> dict[str, str]:
        """Names to values of the slices; none where they cannot be read, which `dataset::slices` tells."""
        from pytest_longctx.slices import slice_names

        try:
            return slice_names(sorted(self.slice_counts))
        except BrokenLinkError:
            return {}

    def of_slice(self, value: str) -> Evidence:
        """The evidence of one slice, made once."""
        from pytest_longctx.slices import SliceEvidence

        if value not in self._of_slices:
            self._of_slices[value] = SliceEvidence(self, value)
        return self._of_slices[value]

    @link
    def sampler(self) -> Sampler:
        """The supervision policy over the tokenizer's template, to render rows again."""
        from pytest_longctx.tokens.build import make_sampler

        return make_sampler(self.tokenizer, self.contract.supervision)

    @property
    def rows(self) -> int:
        """All rows of the dataset, also where only some were drawn."""
        return self.measured.population or self.measured.rows

    @property
    def most_samples(self) -> int | None:
        """How many samples all rows may give, one each that was not drawn; None where all were looked at."""
        measured = self.measured
        if measured.population is None:
            return None
        return len(measured.ledger) + measured.population - measured.rows

    @link
    def two_clocks(self) -> SecondLook:
        """Some rows rendered at two times."""
        from pytest_longctx.tokens.second_look import some_rows, two_clocks

        every = self.contract.dataset.exhaustive
        return two_clocks(some_rows(self.dataset, self.rows, exhaustive=every), self.sampler)

    @link
    def growing_prefixes(self) -> SecondLook:
        """Some rows rendered turn by turn."""
        from pytest_longctx.tokens.second_look import growing_prefixes, some_rows

        every = self.contract.dataset.exhaustive
        return growing_prefixes(some_rows(self.dataset, self.rows, exhaustive=every), self.sampler)

    @link
    def round_trip(self) -> SecondLook:
        """Some rows from the loader that trainers use."""
        from pytest_longctx.tokens.round_trip import arrow_round_trip

        rows = self.rows - self.measured.rejected["empty_file"]
        return arrow_round_trip(self.dataset, rows, self.sampler, exhaustive=self.contract.dataset.exhaustive)

    @link
    def columns(self) -> WindowSamples:
        """The ledger as the window policy reads it."""
        from pytest_longctx.window import WindowSamples

        ledger = self.measured.ledger
        none = ledger.supervised == 0
        start, end = (np.where(none, ledger.total, ledger.tail[:, side]) for side in (0, 1))
        return WindowSamples.of(ledger.total, ledger.supervised, start, end)

    @link
    def plan(self) -> Plan:
        """The ledger after the window policy."""
        from pytest_longctx.window import WindowPolicy, plan_window

        terms = self.contract.window
        if terms is None:
            raise LongctxError("the contract has no section window")
        policy = WindowPolicy(terms.min_kept_supervised_tokens, terms.max_supervision_loss_ratio)
        return plan_window(self.columns, terms.target_context_len, policy)

    @link
    def pipeline(self) -> Pipeline:
        """The packer with its collator, or the trainer, that the contract names."""
        from pytest_longctx.packing.pipeline import build_pipeline

        terms, samples = self.contract.packing, self.measured.samples
        if terms is None:
            raise LongctxError("the contract has no section packing")
        if samples is None:
            raise LongctxError("packing needs token ids, and rows of shape lengths have none")
        plan = self.plan if self.contract.window else None
        return build_pipeline(
            self.contract, terms, self.dataset, samples, plan, self.tokenizer, self.extensions
        )

    @link
    def audit(self) -> Audit:
        """All that the pipeline delivered, checked."""
        samples = self.measured.samples
        if samples is None:
            raise LongctxError("packing needs token ids, and rows of shape lengths have none")
        pipeline, watch = self.pipeline, self.settings.watch
        return replace(pipeline, deliver=lambda: watch(pipeline.deliver(), "packed batches")).audit(samples)

    @link
    def probes(self) -> Callable[[str], dict[str, ProbeResult]]:
        """The isolation probe by attention implementation, each run once."""
        from pytest_longctx.isolation.probes import Probes, forward_of

        terms = self.contract.isolation
        if terms is None:
            raise LongctxError("the contract has no section isolation")
        pipeline, size = self.pipeline, len(self.tokenizer.backend)
        forward = forward_of(terms, self.contract.packing)
        folder = self.contract.resolve(terms.model)
        return Probes(terms, pipeline.make_batch, forward, folder, pipeline.pad_token_id(), size)

    @link
    def stages(self) -> list[Stage]:
        """The baseline and the stages of the curriculum with their metrics."""
        from pytest_longctx.stages import read_stages

        return read_stages(self.contract)

    @link
    def gpu_record(self) -> Record:
        """The workload of the section gpu, measured or planned."""
        from pytest_longctx.gpu import default_mode, measure

        terms, settings = self.contract.gpu, self.settings
        if terms is None:
            raise LongctxError("the contract has no section gpu")
        return measure(
            terms,
            settings.gpu or default_mode(),
            record_path=settings.gpu_record,
            baseline=self.contract.resolve(terms.baseline) if terms.baseline else None,
            under_xdist=settings.under_xdist,
        )
