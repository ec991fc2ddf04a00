"""What every benchmark here agrees on, so that docs/make_performance.py can put it into one table.

A benchmark is a ratio measured in one run, and asserts no time. Its `benchmark.extra_info` holds

* `what`: a phrase for the first column, as "The ledger beside rendering and tokenization";
* `ratio`: the measured number;
* `reach`: the number it should reach, with its direction: "≤ 1.2" or "≥ 4";
* `unit`: optional, of a number that is no ratio: " ms", which then stands in `reach` as well;
* `scale`: optional, what was measured: "20,000 chats of 750 tokens";
* `note`: optional, a sentence for the reader of the table.

The fixture `ratio` measures and fills these. Who measures in another way fills them by hand with
`benchmark.extra_info.update(what=…, ratio=…, reach=…)`, and must still call `benchmark` or
`benchmark.pedantic`, since pytest-benchmark leaves out a test that does not.
"""

from __future__ import annotations

import time

import pytest


@pytest.fixture
def ratio(benchmark):
    """A function that times `work` and `beside` in turns and records the ratio of their least times.

    `ratio(work, beside, what=…, reach=…)` returns the number; all others are optional.
    Where `reach` says "≤", it is the time of `work` over that of `beside`; where it says "≥", it is how
    many times faster `work` is. `work` and `beside` take no arguments. Each runs once before, untimed, for
    imports and caches, unless `warm=False`. `clock=time.process_time` counts the processor time of this
    process alone, which other work on the machine disturbs less; it does not see child processes.
    """

    def compare(
        work,
        beside,
        *,
        what,
        reach,
        scale="",
        note="",
        rounds=5,
        clock=time.perf_counter,
        warm=True,
    ):
        ours, theirs = [], []
        benchmark.pedantic(
            _timed(work, clock, ours),
            setup=_timed(beside, clock, theirs),
            rounds=rounds,
            warmup_rounds=int(warm),
        )
        of_work, of_beside = (min(seconds[warm and len(seconds) > 1 :]) for seconds in (ours, theirs))
        measured = of_work / of_beside if reach.startswith("≤") else of_beside / of_work
        told = {"scale": scale, "note": note}
        benchmark.extra_info.update(what=what, ratio=measured, reach=reach)
        benchmark.extra_info.update({name: text for name, text in told.items() if text})
        return measured

    return compare


def _timed(work, clock, seconds):
    """`work`, with its time put into `seconds`; it returns nothing, as a setup of pytest-benchmark must."""

    def run():
        start = clock()
        work()
        seconds.append(clock() - start)

    return run
