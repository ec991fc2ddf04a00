"""Checks that plugins and conftest.py register."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from pytest_longctx.checks.check import Check
from pytest_longctx.errors import LongctxError, naming
from pytest_longctx.sections import CUSTOM
from pytest_longctx.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_longctx.evidence import Evidence


def custom_checks(registered: Mapping[str, Callable[..., Any]]) -> list[Check]:
    """One check a name; they look at whatever evidence they want, from the dataset on."""
    for name in registered:
        if not re.fullmatch(r"[a-z0-9_]+", name):
            raise LongctxError(f"the check {name!r} has a name that is not of [a-z0-9_]")
    return [
        Check(CUSTOM, name, ("contract",), "dataset", partial(_judge, name, judge))
        for name, judge in registered.items()
    ]


def _judge(name: str, judge: Callable[[Evidence], Any], evidence: Evidence) -> Verdict:
    with naming(f"the check {name!r}"):
        verdict = judge(evidence)
    if not isinstance(verdict, Verdict):
        raise LongctxError(f"the check {name!r} gave {type(verdict).__name__}, expected a Verdict")
    if verdict.outcome not in get_args(Outcome):
        expected = ", ".join(get_args(Outcome))
        raise LongctxError(
            f"the check {name!r} gave the outcome {verdict.outcome!r}, expected one of {expected}"
        )
    if verdict.measured is not None and not math.isfinite(verdict.measured):
        raise LongctxError(f"the check {name!r} measured {verdict.measured}, expected a finite number")
    return verdict
