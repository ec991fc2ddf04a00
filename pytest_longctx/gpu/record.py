"""The record of one run: plain frozen values, one JSON file, written once under its label."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson

from pytest_longctx.bounded import read_bytes
from pytest_longctx.gpu.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_longctx.verdict import Verdict

SCHEMA_VERSION = 1
Mode = Literal["dry_run", "cpu", "real"]
Evidence = Literal["none", "plan", "mechanism", "measurement"]
Decision = Literal["accept_mechanism", "tune", "reject_until_fixed", "ready_to_measure", "not_measured"]


@dataclass(frozen=True, slots=True)
class Peak:
    """Peak memory of some steps, in bytes."""

    allocated_bytes: int
    reserved_bytes: int


@dataclass(frozen=True, slots=True)
class Steps:
    """The counted steps of one workload item; percentiles are nearest-rank."""

    seconds: tuple[float, ...]
    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    median_seconds: float
    p95_seconds: float

    @classmethod
    def of(cls, seconds: Sequence[float], losses: Sequence[float], gradient_norms: Sequence[float]) -> Steps:
        """Steps with their median and 95th percentile."""
        rank = math.ceil(0.95 * len(seconds)) - 1
        median, p95 = statistics.median(seconds), sorted(seconds)[rank]
        return cls(tuple(seconds), tuple(losses), tuple(gradient_norms), median, p95)

    @property
    def finite(self) -> bool:
        """Whether every loss and gradient norm is a finite number."""
        return all(map(math.isfinite, (*self.losses, *self.gradient_norms)))


@dataclass(frozen=True, slots=True)
class LengthMeasurement:
    """One point of the length curve: `rows` rows of `length` tokens a step."""

    length: int
    rows: int
    steps: Steps
    seconds_per_token: float
    peak: Peak
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArmMeasurement:
    """One way of batching the same samples. Tokens are those of one step; supervised ones enter the loss."""

    name: str
    attention: str
    rows: int
    processed_tokens: int
    padding_tokens: int
    supervised_tokens: int
    steps: Steps
    supervised_tokens_per_second: float
    peak: Peak
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LossAgreement:
    """The loss of an arm beside that of padding, in `dtype`; `difference` and `tolerance` are relative."""

    loss: float
    reference: float
    difference: float
    tolerance: float
    dtype: str

    @property
    def holds(self) -> bool:
        """Whether the losses agree; NaN never does."""
        return self.difference <= self.tolerance


@dataclass(frozen=True, slots=True)
class Layout:
    """What one step of an arm holds, as its audit counted it, and the offences by invariant."""

    name: str
    rows: int
    processed_tokens: int
    padding_tokens: int
    supervised_tokens: int
    offences: Mapping[str, int]
    witnesses: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Padding against packing of the same samples, the steps of the arms in alternation A B A B.

    speedup: median over the rounds of padding's seconds / packing's; both arms train the same tokens.
    unavailable: further arms that could not run, with the reason.
    """

    layouts: tuple[Layout, ...]
    agreement: Mapping[str, LossAgreement]
    arms: tuple[ArmMeasurement, ...] = ()
    round_ratios: tuple[float, ...] = ()
    speedup: float | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """Where a run ended early. kind: `out_of_memory`, `layout`, `unavailable`, `interrupted` or `error`."""

    stage: str
    kind: str
    message: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Median step time / that of a baseline record, by length; `reason` says why it was not compared."""

    path: str
    label: str | None
    reason: str
    ratios: Mapping[str, float]
    notes: tuple[str, ...] = ()
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Record:
    """All that one run asked for, ran on, measured and concluded. Values are plain JSON types."""

    label: str
    mode: Mode
    started: str
    ended: str
    versions: Mapping[str, str | None]
    hardware: Mapping[str, Any]
    model: Mapping[str, Any]
    workload: Mapping[str, Any]
    execution: Mapping[str, Any]
    plan: tuple[Mapping[str, Any], ...]
    measurements: tuple[LengthMeasurement, ...]
    comparison: Comparison | None
    baseline: BaselineComparison | None
    checks: Mapping[str, Verdict]
    failure: Failure | None
    evidence: Evidence
    decision: Decision
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON types; a number that is not finite becomes null."""
        values: dict[str, Any] = plain(self)
        return {"schema_version": values.pop("schema_version"), **values}


def plain(value: Any) -> Any:
    """Dataclasses, mappings and sequences as dicts and lists; NaN and infinity as None."""
    if is_dataclass(value):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def reserve(record: Record, path: Path) -> None:
    """Take a label for a run that begins; a run that is killed leaves this as its record.

    Raises:
        RecordError: the label is taken: an older record is never written over.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(_bytes(record))
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            text = "there is a record of this label already, and none is ever written over: name another"
            raise RecordError(f"{path}: {text}") from None
        raise RecordError(f"{path}: the record cannot be written: {error.strerror or error}") from error


def complete(record: Record, path: Path) -> None:
    """Put the finished record in the place that its run has reserved."""
    beside = path.with_name(f"{path.name}.part")
    try:
        beside.write_bytes(_bytes(record))
        beside.replace(path)
    except OSError as error:
        raise RecordError(f"{path}: the record cannot be written: {error.strerror or error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """A record file as plain values.

    Raises:
        RecordError: no such file, no record, or one of another schema version.
    """
    try:
        found = orjson.loads(read_bytes(path))
    except FileNotFoundError:
        raise RecordError(f"{path}: there is no such record") from None
    except (OSError, orjson.JSONDecodeError) as error:
        raise RecordError(f"{path}: the record cannot be read: {error}") from error
    version = found.get("schema_version") if isinstance(found, dict) else None
    if not isinstance(found, dict) or version != SCHEMA_VERSION:
        raise RecordError(f"{path}: found schema version {version!r}, expected a record of {SCHEMA_VERSION}")
    return found


def _bytes(record: Record) -> bytes:
    return orjson.dumps(record.to_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
