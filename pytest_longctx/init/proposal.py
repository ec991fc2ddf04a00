"""From data to the sections of a contract, by the engine that will check them."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.checks import checks_of
from pytest_longctx.contract import DatasetLimits, load_contract
from pytest_longctx.errors import LongctxError
from pytest_longctx.evidence import BrokenLinkError, Evidence
from pytest_longctx.init import notes
from pytest_longctx.init.columns import Columns, read_columns
from pytest_longctx.init.limits import LOOSEST, Proposed, allowed, proposed, round_window
from pytest_longctx.init.template import training_template
from pytest_longctx.lengths import LengthHistogram
from pytest_longctx.waivers import utc_today

if TYPE_CHECKING:
    from pytest_longctx.checks import Check
    from pytest_longctx.init.source import Source
    from pytest_longctx.settings import Settings
    from pytest_longctx.verdict import Verdict

    Judged = list[tuple[Check, Verdict]]

WAIVED_FOR = dt.timedelta(days=30)
_COVERED = 99
_FEWEST_ROWS = 10


@dataclass
class Proposal:
    """A contract in parts, and what deserves a look.

    template: the one to name instead of the source's. terms: sections tokenizer, dataset and supervision as
    the contract spells them. limits: by section and name. waived: failing checks that have no limit, with
    the reason.
    """

    source: Source
    today: dt.date
    template: str | None = None
    terms: dict[str, Any] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)
    lengths: LengthHistogram = field(default_factory=lambda: LengthHistogram.of([]))
    shape: str = ""
    recognised: str = ""
    fingerprint: str | None = None
    window: int = 0
    packing: dict[str, str] | None = None
    limits: dict[str, dict[str, Proposed]] = field(default_factory=dict)
    waived: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def until(self) -> dt.date:
        """The last day of the waivers."""
        return self.today + WAIVED_FOR

    @property
    def thresholds(self) -> dict[str, int]:
        """Up to an eighth of the window is short, beyond half of it is long."""
        return {"short_threshold": self.window // 8, "long_threshold": self.window // 2}

    @property
    def policy(self) -> dict[str, int | float]:
        """The window, and what may be cut."""
        kept = min(16, self.window)
        return {
            "target_context_len": self.window,
            "min_kept_supervised_tokens": kept,
            "max_supervision_loss_ratio": 0.25,
        }


def propose(source: Source, settings: Settings | None = None) -> Proposal:
    """Measure the data and propose a contract for it.

    Raises:
        LongctxError: the data cannot be read, or the template cannot supervise it.
    """
    with tempfile.TemporaryDirectory(prefix="longctx-init-") as folder:
        return _Draft(Path(folder), source.absolute(), settings).proposal()


class _Draft:
    """A contract under way, in a folder of its own."""

    def __init__(self, folder: Path, source: Source, settings: Settings | None) -> None:
        self.folder, self.settings = folder, settings
        self.result = Proposal(source, utc_today(), terms={"contract": 1, **source.terms()})

    def evidence(self, **sections: Any) -> Evidence:
        """The evidence of what is known so far."""
        path = self.folder / "contract.yaml"
        # JSON is YAML.
        path.write_text(json.dumps({**self.result.terms, **sections}), encoding="utf-8")
        return Evidence(load_contract(path), settings=self.settings)

    def proposal(self) -> Proposal:
        result = self.result
        self.recognise()
        measured = self.measured()
        result.lengths = LengthHistogram.of(measured.measured.ledger.total)
        result.window = round_window(result.lengths.percentile(_COVERED))
        evidence, judged = self.judged(measured)
        for check, verdict in judged:
            self.settle(check, verdict, evidence)
        result.notes = [
            *notes.of_verdicts(judged, result),
            *result.notes,
            *notes.of_rows(result, evidence),
            *notes.of_window(evidence),
            *notes.of_tokenizer(evidence),
        ]
        return result

    def recognise(self) -> None:
        """Shape, id column and supervision."""
        result, terms = self.result, self.result.terms
        # What shape the rows have tells whether there must be a tokenizer; none is read yet.
        dataset = _made(self.evidence(tokenizer=terms.get("tokenizer", {"path": "."})), "dataset")
        result.shape, result.recognised = dataset.shape, dataset.note
        if not dataset.shape:
            raise LongctxError(f"{', '.join(result.source.data)}: {dataset.note}")
        result.columns = read_columns(dataset.rows())
        terms["dataset"]["shape"] = dataset.shape
        if result.columns.id:
            terms["dataset"]["id"] = result.columns.id
        turns = {"text": "every_token", "prompt_completion": "completion"}.get(dataset.shape)
        if turns:
            terms["supervision"] = {"turns": turns}

    def measured(self) -> Evidence:
        """The evidence with its one pass over the rows."""
        result, terms = self.result, self.result.terms
        if result.shape == "lengths":
            terms.pop("tokenizer", None)
        elif "tokenizer" not in terms:
            raise LongctxError(f"rows of shape {result.shape} need a tokenizer: --tokenizer FOLDER")
        else:
            named = training_template(_made(self.evidence(), "tokenizer"), result.shape)
            if named:
                terms["tokenizer"]["chat_template"] = named
                result.template = named
                result.notes.append(notes.training_variant(named))
            result.fingerprint = _made(self.evidence(), "tokenizer").fingerprint
        evidence = self.evidence()
        measured = _made(evidence, "measured")
        if not len(measured.ledger):
            raise LongctxError(notes.nothing_left(measured))
        return evidence

    def judged(self, measured: Evidence) -> tuple[Evidence, Judged]:
        """Every check of a contract whose limits nothing fails, with its verdict."""
        result = self.result
        if result.shape != "lengths":
            result.packing = _packing()
        try:
            return self._judged(measured)
        except LongctxError as error:
            if result.packing is None:
                raise
            # Packing needs more than the rest, and may be what does not work here.
            result.packing = None
            result.notes.append(f"section packing is left out, it cannot run here: {error}")
            return self._judged(measured)

    def _judged(self, measured: Evidence) -> tuple[Evidence, Judged]:
        result = self.result
        sections: dict[str, Any] = {
            "lengths": {**result.thresholds, "limits": LOOSEST["lengths"]},
            "window": {**result.policy, "limits": LOOSEST["window"]},
        }
        if result.packing:
            sections["packing"] = {**result.packing, "limits": LOOSEST["packing"]}
        evidence = self.evidence(**sections)
        # The pass over the rows is the same one.
        shared = ("dataset", "tokenizer", "measured")
        vars(evidence).update({name: value for name, value in vars(measured).items() if name in shared})
        return evidence, [(check, _run(check, evidence)) for check in checks_of(evidence.contract)]

    def settle(self, check: Check, verdict: Verdict, evidence: Evidence) -> None:
        """A limit with room for what the check measured, or a waiver for what it found."""
        if check.name in LOOSEST.get(check.section, {}):
            if check.section == "packing" and evidence.audit.rows < _FEWEST_ROWS:
                return  # how full two or three rows are is chance
            self.limit(check, proposed(check.name, verdict, len(evidence.measured.ledger)))
        elif verdict.outcome == "failed":
            limited = check.section == "dataset" and check.name in DatasetLimits.model_fields
            limit = allowed(verdict, len(evidence.measured.ledger)) if limited else None
            self.limit(check, limit)
            if limit is None:
                self.result.waived[check.id] = verdict.headline

    def limit(self, check: Check, limit: Proposed | None) -> None:
        """Propose a limit."""
        if limit is not None:
            self.result.limits.setdefault(check.section, {})[check.name] = limit


def _packing() -> dict[str, str]:
    """As TRL packs where it is installed, else as the reference does."""
    if all(find_spec(name) for name in ("trl", "torch", "datasets")):
        return {"packer": "trl_bfd", "collator": "trl_padding_free"}
    return {"packer": "ffd", "collator": "block_mask"}


def _made(evidence: Evidence, link: str) -> Any:
    """A link of the chain; the cause where it cannot be made."""
    try:
        return getattr(evidence, link)
    except BrokenLinkError as error:
        raise error.cause from None


def _run(check: Check, evidence: Evidence) -> Verdict:
    try:
        return check.run(evidence)
    except BrokenLinkError as error:
        raise error.cause from None
