"""What is run: the contract's `gpu` section, or the same in small for a run without a GPU."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson

from pytest_longctx.contract.runs import RandomModel

if TYPE_CHECKING:
    from pytest_longctx.contract import GpuSection
    from pytest_longctx.gpu.record import Mode

# Raised whenever the same terms would run other steps: records of two versions are not compared.
WORKLOAD_VERSION = 1
STAND_IN = "qwen2"
CPU_LONGEST = 128  # tokens; a CPU run divides longer workloads down to this
PADDING, PACKING = "padding", "packing"


@dataclass(frozen=True, slots=True)
class Workload:
    """The steps of one run. Lengths in tokens; `divided_by` tells how far they were scaled down."""

    model: dict[str, Any]
    sequence_lengths: tuple[int, ...]
    packing_sample_lengths: tuple[int, ...]
    batch_size: int
    warmup_steps: int
    repeat_steps: int
    attention: str
    dtype: str
    seed: int
    divided_by: int = 1
    version: int = WORKLOAD_VERSION

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits over all of it: records with equal ones ran the same steps."""
        text = orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(text).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the fingerprint."""
        return {**asdict(self), "fingerprint": self.fingerprint}


def workload_of(terms: GpuSection, mode: Mode, dtype: str | None = None) -> Workload:
    """The workload of a run.

    With mode `cpu` a tiny model stands in, in float32, and lengths are divided until none is over 128.

    Args:
        dtype: what the device supports in place of the contract's.
    """
    if mode == "cpu":
        return _in_small(terms)
    return Workload(
        model=terms.model.model_dump(),
        sequence_lengths=tuple(terms.sequence_lengths),
        packing_sample_lengths=tuple(terms.packing_sample_lengths),
        batch_size=terms.batch_size,
        warmup_steps=terms.warmup_steps,
        repeat_steps=terms.repeat_steps,
        attention=terms.attention,
        dtype=dtype or terms.dtype,
        seed=terms.seed,
    )


def _in_small(terms: GpuSection) -> Workload:
    model = terms.model
    architecture = model.architecture if isinstance(model, RandomModel) else STAND_IN
    longest = max(*terms.sequence_lengths, sum(terms.packing_sample_lengths))
    divisor = max(1, -(-longest // CPU_LONGEST))
    lengths: list[int] = []
    for length in terms.sequence_lengths:
        lengths.append(max(lengths[-1] + 1 if lengths else 2, length // divisor))
    return Workload(
        model=RandomModel(architecture=architecture, size="tiny", seed=terms.seed).model_dump(),
        sequence_lengths=tuple(lengths),
        packing_sample_lengths=tuple(max(2, length // divisor) for length in terms.packing_sample_lengths),
        batch_size=terms.batch_size,
        warmup_steps=terms.warmup_steps,
        repeat_steps=terms.repeat_steps,
        attention=terms.attention if terms.attention in ("eager", "sdpa") else "sdpa",
        dtype="float32",
        seed=terms.seed,
        divided_by=divisor,
    )


def prompt_tokens(length: int) -> int:
    """Tokens at the start of a sample that are no targets: a quarter, one at least."""
    return max(1, length // 4)


def items(workload: Workload) -> list[str]:
    """Everything that must have run, by name."""
    return [*(f"length_{length}" for length in workload.sequence_lengths), PADDING, PACKING]


def plan(workload: Workload) -> tuple[dict[str, Any], ...]:
    """What each item will process in a step, from the lengths alone."""
    samples = workload.packing_sample_lengths * workload.batch_size
    targets = sum(length - prompt_tokens(length) for length in samples)
    curve = [
        _item(f"length_{length}", workload.batch_size, length, 0, workload.batch_size * (length - 1))
        for length in workload.sequence_lengths
    ]
    longest, total = max(samples), sum(workload.packing_sample_lengths)
    padding = len(samples) * longest - sum(samples)
    return (
        *curve,
        _item(PADDING, len(samples), longest, padding, targets),
        _item(PACKING, workload.batch_size, total, 0, targets),
    )


def _item(name: str, rows: int, width: int, padding: int, supervised: int) -> dict[str, Any]:
    return {
        "item": name,
        "rows": rows,
        "width": width,
        "processed_tokens": rows * width,
        "padding_tokens": padding,
        "supervised_tokens": supervised,
    }
