"""Section gpu: step time and peak memory over length, and padding against packing, as measured."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_longctx.checks.check import Check, limit_key

if TYPE_CHECKING:
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.verdict import Verdict


def checks(contract: Contract) -> list[Check]:
    """The five checks of the mechanism, and the limits that the section sets."""
    from pytest_longctx.gpu import check_names

    section = contract.gpu
    if section is None:
        return []
    limits = type(section.limits).model_fields
    return [
        Check(
            "gpu",
            name,
            limit_key("gpu", section, name) if name in limits else ("gpu",),
            "gpu_record",
            partial(measured, name),
            name.startswith("min_"),
        )
        for name in check_names(section)
    ]


def measured(name: str, evidence: Evidence) -> Verdict:
    """One verdict of the record; required on a GPU, it fails where it was skipped or ran elsewhere."""
    from pytest_longctx.gpu import demanded, lines

    record = evidence.gpu_record
    required = "gpu" in evidence.settings.required
    verdict = (demanded(record.checks, record.mode) if required else record.checks)[name]
    return replace(verdict, context=tuple(lines(record))) if name == "length_curve" else verdict
