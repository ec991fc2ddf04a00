"""The window policy: which samples fit, which may be truncated, which overflow, and what they keep.

A trainer cuts a sequence at the window and keeps its start. So a sample of `total` tokens loses the positions
from the window on. The cut is allowed only if all of them lie in the last supervised span or in the template
tokens behind it; else a prompt or an earlier turn would be hurt, and the sample overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pytest_longctx.lengths import Int64Array, IntArray, integers

if TYPE_CHECKING:
    from collections.abc import Sequence

FIT, TRUNCATE, OVERFLOW = 0, 1, 2
DECISIONS = ("fit", "truncate", "overflow")  # by code

NO_REASON, PROMPT_DOES_NOT_FIT, EARLIER_TURN_CUT, TOO_LITTLE_KEPT, LOSS_RATIO_TOO_HIGH = range(5)
REASONS = ("", "prompt_does_not_fit", "earlier_turn_cut", "too_little_kept", "loss_ratio_too_high")  # by code

UInt8Array = npt.NDArray[np.uint8]
Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WindowSamples:
    """What the policy needs of each of n samples; all columns int64[n], in tokens."""

    total: Int64Array
    supervised: Int64Array  # supervised tokens in all spans
    tail_start: Int64Array  # start of the last supervised span, `total` when there is none
    tail_end: Int64Array  # its end, `total` when there is none

    @classmethod
    def of(
        cls,
        total: Sequence[int] | IntArray,
        supervised: Sequence[int] | IntArray,
        tail_start: Sequence[int] | IntArray,
        tail_end: Sequence[int] | IntArray,
    ) -> WindowSamples:
        """Check the columns; ValueError when they contradict each other.

        The tail of a sample without supervised tokens is not read.
        """
        named = {"total": total, "supervised": supervised, "tail_start": tail_start, "tail_end": tail_end}
        columns = {name: integers(column, name).astype(np.int64) for name, column in named.items()}
        if len({column.size for column in columns.values()}) > 1:
            sizes = ", ".join(f"{name} {column.size}" for name, column in columns.items())
            raise ValueError(f"the columns differ in length: {sizes}")
        for name in ("tail_start", "tail_end"):  # without supervision there is no tail that a cut may shorten
            columns[name] = np.where(columns["supervised"] == 0, columns["total"], columns[name])
        samples = cls(**columns)
        tail = samples.tail_end - samples.tail_start
        inside = (samples.tail_start >= 0) & (tail >= 0) & (samples.tail_end <= samples.total)
        counted = (np.minimum(1, samples.supervised) <= tail) & (tail <= samples.supervised)
        wrong = ~(inside & counted & (samples.supervised <= samples.total))
        if wrong.any():
            index = int(np.argmax(wrong))
            found = ", ".join(f"{name} {int(column[index])}" for name, column in columns.items())
            raise ValueError(f"sample {index} contradicts itself: {found}")
        return samples

    @classmethod
    def from_lengths(
        cls,
        template_tokens: int | Sequence[int] | IntArray,
        prompt_tokens: Sequence[int] | IntArray,
        supervised_tokens: Sequence[int] | IntArray,
    ) -> WindowSamples:
        """Samples of which only lengths are known: template, then prompt, then the supervised tail.

        `template_tokens` is one number for all or a column. Cutting at the window then keeps
        min(supervised, max(0, window - template - prompt)) supervised tokens.
        """
        prompt = integers(prompt_tokens, "prompt_tokens").astype(np.int64)
        supervised = integers(supervised_tokens, "supervised_tokens").astype(np.int64)
        if prompt.shape != supervised.shape:
            raise ValueError(f"the columns differ in length: {prompt.size} and {supervised.size}")
        tail_start = prompt + np.asarray(template_tokens, np.int64)
        total = tail_start + supervised
        return cls.of(total, supervised, tail_start, total)

    def select(self, index: npt.NDArray[np.bool_] | IntArray) -> WindowSamples:
        """Return the samples at `index`, a mask or positions (of a slice, say)."""
        return WindowSamples(
            self.total[index], self.supervised[index], self.tail_start[index], self.tail_end[index]
        )

    def kept_before(self, window: int) -> Int64Array:
        """Return the supervised tokens before a cut at `window`, int64[n].

        Where the cut reaches back beyond the last supervised span, only the loss of that span is counted.
        """
        return self.supervised - np.maximum(0, self.tail_end - np.maximum(window, self.tail_start))


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """Which truncations are admitted. ValueError for a negative minimum or a ratio outside 0 to 1."""

    min_kept_supervised_tokens: int = 1
    max_supervision_loss_ratio: float = 0.0

    def __post_init__(self) -> None:
        if self.min_kept_supervised_tokens < 0:
            raise ValueError(
                f"min_kept_supervised_tokens must not be negative, is {self.min_kept_supervised_tokens}"
            )
        if not 0.0 <= self.max_supervision_loss_ratio <= 1.0:
            raise ValueError(
                f"max_supervision_loss_ratio must lie between 0 and 1, is {self.max_supervision_loss_ratio}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What the window does to each of n samples."""

    window: int
    decision: UInt8Array  # uint8[n], index into DECISIONS
    kept: Int64Array  # int64[n], supervised tokens kept, 0 for overflow
    loss: Float64Array  # float64[n], share of the supervised tokens lost; for overflow what a cut would lose
    length: Int64Array  # int64[n], tokens fed to the packer: all for fit, window for truncate, 0 for overflow
    reason: UInt8Array  # uint8[n], index into REASONS, 0 unless overflow
    supervised: Int64Array  # int64[n], supervised tokens before the cut

    def count(self, decision: int) -> int:
        """Return the number of samples with this decision code."""
        return int(np.count_nonzero(self.decision == decision))

    @property
    def overflow_ratio(self) -> float:
        """Share of the samples that overflow, 0.0 when there is none."""
        return self.count(OVERFLOW) / max(1, self.decision.size)

    @property
    def truncated_ratio(self) -> float:
        """Share of the samples that are truncated, 0.0 when there is none."""
        return self.count(TRUNCATE) / max(1, self.decision.size)

    @property
    def kept_supervision_ratio(self) -> float:
        """Share of all supervised tokens that are kept, 1.0 when there is none to lose."""
        supervised = int(self.supervised.sum())
        return int(self.kept.sum()) / supervised if supervised else 1.0

    @property
    def lost_turn_ends(self) -> int:
        """Number of truncated samples whose last supervised span has lost its end, so its end of turn."""
        return int(np.count_nonzero((self.decision == TRUNCATE) & (self.kept < self.supervised)))

    def kept_turns(self, turn_offsets: IntArray, turn_end: IntArray) -> Int64Array:
        """Return the number of supervised turns that are kept whole, int64[n].

        The turns of sample i are `turn_end[turn_offsets[i]:turn_offsets[i + 1]]`, their ends in tokens.
        """
        fed = np.repeat(self.length, np.diff(turn_offsets))
        whole = np.concatenate([[0], np.cumsum(turn_end <= fed)])
        return np.diff(whole[turn_offsets])


def plan_window(samples: WindowSamples, window: int, policy: WindowPolicy) -> Plan:
    """Decide for each sample.

    *fit*: total ≤ window. *truncate*: the cut is allowed, the kept supervised tokens are at least
    `min_kept_supervised_tokens` and the loss ratio is at most `max_supervision_loss_ratio`; or no supervised
    token is lost at all, since only template tokens behind the last span are cut (the sample is fed shorter,
    so it is truncated, with loss ratio 0). *overflow*: the rest.
    """
    if window < 1:
        raise ValueError(f"the window must be at least 1 token, not {window}")
    kept = samples.kept_before(window)
    lost = samples.supervised - kept
    loss = lost / np.maximum(1, samples.supervised)
    fits = samples.total <= window
    allowed = window >= samples.tail_start
    enough = (kept >= policy.min_kept_supervised_tokens) | (lost == 0)
    cheap = loss <= policy.max_supervision_loss_ratio
    truncates = ~fits & allowed & enough & cheap
    single = samples.supervised == samples.tail_end - samples.tail_start
    admitted = fits | truncates
    reason = np.select(
        [admitted, ~allowed & single, ~allowed, ~enough],
        [NO_REASON, PROMPT_DOES_NOT_FIT, EARLIER_TURN_CUT, TOO_LITTLE_KEPT],
        LOSS_RATIO_TOO_HIGH,
    )
    return Plan(
        window=window,
        decision=np.select([fits, truncates], [FIT, TRUNCATE], OVERFLOW).astype(np.uint8),
        kept=np.where(admitted, kept, 0),
        loss=loss,
        length=np.where(admitted, np.minimum(samples.total, window), 0),
        reason=reason.astype(np.uint8),
        supervised=samples.supervised,
    )


def critical_windows(samples: WindowSamples, policy: WindowPolicy) -> Int64Array:
    """Return for each sample the smallest window in which it does not overflow, int64[n].

    There is one, since what is kept grows with the window.
    """
    supervised = samples.supervised
    ratio = policy.max_supervision_loss_ratio
    losable = np.floor(ratio * supervised).astype(np.int64)
    # The product is rounded; the rule is stated on the quotient.
    losable += (losable + 1) / np.maximum(1, supervised) <= ratio
    losable -= losable / np.maximum(1, supervised) > ratio
    losable = np.clip(np.minimum(losable, supervised - policy.min_kept_supervised_tokens), 0, supervised)
    critical: Int64Array = np.minimum(
        samples.total, np.maximum(samples.tail_start, samples.tail_end - losable)
    )
    return critical


@dataclass(frozen=True, slots=True, eq=False)
class WindowCurve:
    """What each of w candidate windows would do; ratios as in `Plan`."""

    windows: Int64Array  # int64[w]
    overflow_ratio: Float64Array  # float64[w]
    truncated_ratio: Float64Array  # float64[w]
    kept_supervision_ratio: Float64Array  # float64[w]


def what_if(samples: WindowSamples, policy: WindowPolicy, windows: Sequence[int] | IntArray) -> WindowCurve:
    """Return the ratios of `Plan` for many windows at once, exactly, in O((n + w) log n)."""
    candidates = integers(windows, "windows").astype(np.int64)
    critical = critical_windows(samples, policy)
    admitted, ends, supervised_sum = _up_to(candidates, critical, samples.tail_end, samples.supervised)
    whole, whole_ends = _up_to(candidates, samples.tail_end, samples.tail_end)
    fit = np.searchsorted(np.sort(samples.total), candidates, side="right")
    # Of the admitted samples, those whose last span ends behind the window lose what lies behind it.
    lost = (ends - admitted * candidates) - (whole_ends - whole * candidates)
    number, supervised = max(1, critical.size), int(samples.supervised.sum())
    kept_ratio = (supervised_sum - lost) / supervised if supervised else np.ones(candidates.size)
    return WindowCurve(
        windows=candidates,
        overflow_ratio=(critical.size - admitted) / number,
        truncated_ratio=(admitted - fit) / number,
        kept_supervision_ratio=kept_ratio,
    )


def _up_to(bounds: Int64Array, keys: Int64Array, *columns: Int64Array) -> tuple[Int64Array, ...]:
    """Return for each bound how many keys are ≤ it, and the sum of each column over these."""
    order = np.argsort(keys, kind="stable")
    places = np.searchsorted(keys[order], bounds, side="right")
    return places, *(np.concatenate([[0], np.cumsum(column[order])])[places] for column in columns)


def smallest_window(samples: WindowSamples, policy: WindowPolicy, max_overflow_ratio: float) -> int:
    """Return the smallest window whose overflow ratio is at most `max_overflow_ratio`; at least 1."""
    critical = np.sort(critical_windows(samples, policy))
    number = critical.size
    over = np.arange(number + 1)
    allowed = int(np.searchsorted(over / max(1, number), max_overflow_ratio, side="right")) - 1
    if allowed < 0:
        raise ValueError(f"max_overflow_ratio must not be negative, is {max_overflow_ratio}")
    return max(1, int(critical[number - allowed - 1])) if allowed < number else 1
