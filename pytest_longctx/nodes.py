"""pytest's nodes: a contract file, its sections, its checks. All node ids, names and line numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_longctx.errors import LongctxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_longctx.checks import Check
    from pytest_longctx.contract import Contract
    from pytest_longctx.evidence import Evidence
    from pytest_longctx.verdict import Verdict

VERDICT: pytest.StashKey[Verdict] = pytest.StashKey()


class ContractWarning(UserWarning):
    """A check's value is beyond the contract's `warn`, and within its `limits`."""


class CheckFailedError(AssertionError):
    """A check did not pass; its text is the verdict's."""


def contract_nodeid(path: Path, rootpath: Path) -> str | None:
    """A contract outside rootdir would get an empty id; it gets its path relative to rootdir instead."""
    if path.is_relative_to(rootpath):
        return None
    try:
        return Path(os.path.relpath(path, rootpath)).as_posix()
    except ValueError:  # another drive on Windows
        return path.as_posix()


class BrokenContract(pytest.File):
    """A contract that cannot be judged: its problems in place of its checks."""

    problems: str

    @classmethod
    def of(cls, parent: pytest.Collector, path: Path, problems: str) -> BrokenContract:
        """The node of a contract with such problems."""
        nodeid = contract_nodeid(path, parent.config.rootpath)
        node: BrokenContract = cls.from_parent(parent, path=path, nodeid=nodeid)
        node.problems = problems
        return node

    def collect(self) -> Iterator[pytest.Item]:
        """No check.

        Raises:
            CollectError: always, with the problems.
        """
        raise self.CollectError(self.problems)


class ContractFile(pytest.Module):
    """A contract as a module without Python code, so that every fixture scope works."""

    contract: Contract
    evidence: Evidence
    checks: list[Check]
    told: dict[Exception, str]
    # No Python module stands behind a contract.
    obj = None  # pytest's property would import the file

    @classmethod
    def of(cls, parent: pytest.Collector, path: Path, contract: Contract, evidence: Evidence) -> ContractFile:
        """The node of a contract."""
        nodeid = contract_nodeid(path, parent.config.rootpath)
        node: ContractFile = cls.from_parent(parent, path=path, nodeid=nodeid)
        node.contract, node.evidence, node.checks, node.told = contract, evidence, [], {}
        node.add_marker("longctx")
        return node

    def collect(self) -> Iterator[Section]:
        """One collector a section, in the order of the checks."""
        from pytest_longctx.checks import checks_of
        from pytest_longctx.checks.check import with_slices
        from pytest_longctx.waivers import slice_problems

        self.checks = checks_of(self.contract, self.evidence.extensions)
        known = [check.id for check in self.checks]
        if problems := list(slice_problems(self.contract, known, self.evidence.slices)):
            raise self.CollectError("\n".join(map(str, problems)))
        self.checks = with_slices(self.checks, self.evidence.slices)
        for name, group in _grouped(self.checks, "section"):
            section = Section.of(self, name, group)
            section.add_marker(f"longctx_{name}")
            if name == "gpu":
                section.add_marker("gpu")
            yield section


class Section(pytest.Collector):
    """A section of a contract, or one of its checks that has several items."""

    checks: list[Check]

    @classmethod
    def of(cls, parent: pytest.Collector, name: str, checks: list[Check]) -> Section:
        """The node of some checks."""
        node: Section = cls.from_parent(parent, name=name)
        node.checks = checks
        return node

    def collect(self) -> Iterator[CheckItem | Section]:
        """One item a check; parts of a check stand below it."""
        for name, group in _grouped(self.checks, "name"):
            parts = [check for check in group if check.part]
            if isinstance(self.parent, Section):
                yield from (CheckItem.of(self, check.part, check) for check in parts)
                continue
            yield from (CheckItem.of(self, name, check) for check in group if not check.part)
            if parts:
                yield Section.of(self, name, parts)


def _grouped(checks: list[Check], attribute: str) -> Iterator[tuple[str, list[Check]]]:
    groups: dict[str, list[Check]] = {}
    for check in checks:
        groups.setdefault(getattr(check, attribute), []).append(check)
    yield from groups.items()


def _no_function() -> None:
    """Stands where pytest wants the test function of an item."""


class CheckItem(pytest.Function):
    """One check of a contract."""

    check: Check

    @classmethod
    def of(cls, parent: Section, name: str, check: Check) -> CheckItem:
        """The item of a check."""
        item: CheckItem = cls.from_parent(parent, name=name, callobj=_no_function)
        item.check = check
        return item

    @property
    def file(self) -> ContractFile:
        """The contract's node."""
        node = self.getparent(ContractFile)
        if node is None:
            raise AssertionError("a check stands below its contract")
        return node

    def setup(self) -> None:
        """Make what the check looks at; where that fails, the item errors with the cause."""
        super().setup()
        if reason := self._broken_link():
            pytest.fail(reason, pytrace=False)

    def _broken_link(self) -> str:
        """Why the check cannot be judged: in full with the first one that finds out, then by its name."""
        from pytest_longctx.evidence import BrokenLinkError
        from pytest_longctx.report.text import broken_lines

        try:
            self.check.prepare(self.file.evidence)
        except BrokenLinkError as error:
            first = self.file.told.setdefault(error.cause, self.check.id)
            if first == self.check.id and not isinstance(error.cause, LongctxError):
                raise error.cause from None
            return "\n".join(broken_lines(self.check, str(error), first))
        return ""

    def runtest(self) -> None:
        """Judge, and raise or warn."""
        verdict = self.check.run(self.file.evidence)
        self.stash[VERDICT] = verdict
        self._record(verdict)
        if verdict.outcome == "failed":
            raise CheckFailedError(self._text(verdict))
        if verdict.outcome == "skipped":
            raise pytest.skip.Exception(verdict.headline, _use_item_location=True)
        if verdict.outcome == "warned":
            self.warn(ContractWarning(self._text(verdict)))

    def _record(self, verdict: Verdict) -> None:
        from pytest_longctx.report.record import to_record
        from pytest_longctx.reporting import RECORD

        self.user_properties.append((RECORD, to_record(self.check, verdict)))

    def _text(self, verdict: Verdict) -> str:
        from pytest_longctx.report.text import verdict_lines

        return "\n".join(verdict_lines(self.check, verdict, self.file.contract))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **kwargs: Any) -> Any:
        """The verdict's text; an error of the user's input without a traceback; anything else in full."""
        if isinstance(excinfo.value, CheckFailedError | ContractWarning):
            return str(excinfo.value)
        if isinstance(excinfo.value, LongctxError):
            from pytest_longctx.report.text import broken_lines

            return "\n".join(broken_lines(self.check, str(excinfo.value), self.check.id))
        return super().repr_failure(excinfo, *args, **kwargs)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The contract's line that asks for the check, counted from 0."""
        from pytest_longctx.report.record import line_of

        return self.path, line_of(self.check, self.file.contract) - 1, self.check.id
