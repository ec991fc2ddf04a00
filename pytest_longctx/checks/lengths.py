"""Section lengths: the distribution of sample lengths."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.checks.check import (
    SHOWN,
    Check,
    both_limits,
    limit_key,
    limit_names,
    limit_verdict,
    undecided,
)
from pytest_longctx.intervals import Interval, proportion
from pytest_longctx.lengths import LengthHistogram
from pytest_longctx.verdict import Verdict, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_longctx.contract import Contract
    from pytest_longctx.contract.stages import LengthsSection
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.tokens.ledger import Ledger
    from pytest_longctx.verdict import Number, Outcome, Unit


def checks(contract: Contract) -> list[Check]:
    """The limits that the section sets."""
    section = contract.lengths
    return [
        Check(
            "lengths",
            name,
            limit_key("lengths", section, name),
            "measured",
            partial(limit, name),
            name.startswith("min_"),
        )
        for name in limit_names(section)
    ]


def limit(name: str, evidence: Evidence) -> Verdict:
    """One limit of the section."""
    section = evidence.contract.lengths
    ledger = evidence.measured.ledger
    if section is None or not len(ledger):
        return Verdict("failed", f"{name}: there is no sample to measure", advice="check dataset.path")
    lengths = LengthHistogram.of(ledger.total)
    measured, unit = _measured(name, lengths, section)
    longest = np.argsort(-ledger.total, kind="stable")[:SHOWN]
    verdict = limit_verdict(
        name,
        measured,
        unit,
        both_limits(section, name),
        f"{len(ledger):,} samples",
        _interval(name, evidence, measured),
        witnesses=_rows(ledger, longest) if name.startswith("max_") and unit == "tokens" else (),
        advice="look at the longest rows, or set the limit to what the training run is planned for",
    )

    return _of_all_rows(name, evidence, lengths, verdict)


# The share of all samples that a limit on tokens wants below it.
_SHARES = {"max_tokens": 1.0, "max_p50_tokens": 0.5, "max_p95_tokens": 0.95}


def _of_all_rows(name: str, evidence: Evidence, lengths: LengthHistogram, verdict: Verdict) -> Verdict:
    """Where rows were drawn: the verdict, or that so few cannot tell of all; none can of the longest."""
    most, wanted = evidence.most_samples, _SHARES.get(name)
    if most is None or wanted is None or verdict.outcome != "passed":
        return verdict
    outcomes: tuple[tuple[Outcome, str], ...] = (("failed", "limit"), ("warned", "warn"))
    for outcome, kind in outcomes:
        limit = both_limits(evidence.contract.lengths, name)[kind]
        if limit is None:
            continue
        below = proportion(lengths.up_to(int(limit)), lengths.count, most)
        if below.decides(wanted, least=True) is not True:
            rows = below.rows_to_decide(wanted)
            return undecided(name, outcome, below, f"{shown(limit, 'tokens')} tokens", rows)
    return verdict


def _rows(ledger: Ledger, chosen: NDArray[np.int64]) -> tuple[dict[str, Any], ...]:
    return tuple({"id": ledger.ids[place], "total": int(ledger.total[place])} for place in chosen.tolist())


def _interval(name: str, evidence: Evidence, measured: Number) -> Interval | None:
    """What the drawn rows tell of a share in all rows; None where all were looked at."""
    rows, most = len(evidence.measured.ledger), evidence.most_samples
    if most is None or not name.endswith("_share"):
        return None
    return proportion(round(measured * rows), rows, most)


def _measured(name: str, lengths: LengthHistogram, section: LengthsSection) -> tuple[Number, Unit]:
    if name == "max_tokens":
        return lengths.longest, "tokens"
    if name.endswith("_tokens"):
        return lengths.percentile(50 if "p50" in name else 95), "tokens"
    if name.endswith("short_share"):
        return lengths.up_to(section.short_threshold) / lengths.count, "ratio"
    return (lengths.count - lengths.up_to(section.long_threshold)) / lengths.count, "ratio"
