"""Run a contract without pytest: the same evidence, checks and verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_longctx.checks import checks_of
from pytest_longctx.checks.check import with_slices
from pytest_longctx.contract import load_contract
from pytest_longctx.errors import LongctxError
from pytest_longctx.evidence import Evidence

if TYPE_CHECKING:
    import os

    from pytest_longctx.checks import Check
    from pytest_longctx.contract import Contract
    from pytest_longctx.extensions import Extensions
    from pytest_longctx.settings import Settings
    from pytest_longctx.verdict import Verdict


@dataclass(frozen=True)
class Result:
    """A check with its verdict; `error` instead where the evidence for it could not be made."""

    check: Check
    verdict: Verdict | None
    error: str = ""

    @property
    def outcome(self) -> str:
        """passed, warned, failed, skipped or error."""
        return self.verdict.outcome if self.verdict else "error"


@dataclass(frozen=True)
class Report:
    """All results of one contract."""

    contract: Contract
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed and no evidence was missing."""
        return all(result.outcome not in ("failed", "error") for result in self.results)


def check_contract(
    path: str | os.PathLike[str], extensions: Extensions | None = None, settings: Settings | None = None
) -> Report:
    """Run every check of a contract.

    Args:
        extensions: what hooks would register; none is called here, so a contract that names a packer or a
            trainer of yours has errors without it, and does not pass.

    Raises:
        ContractError: the contract itself cannot be used.
    """
    contract = load_contract(path)
    evidence = Evidence(contract, extensions, settings)
    checks = with_slices(checks_of(contract, extensions), evidence.slices)
    return Report(contract, tuple(_result(check, evidence) for check in checks))


def _result(check: Check, evidence: Evidence) -> Result:
    try:
        return Result(check, check.run(evidence))
    except LongctxError as error:
        return Result(check, None, str(error))
