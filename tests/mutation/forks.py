"""Runs the tests of a module against its mutants, each in a fork of a process that has all else loaded.

A mutated function gets its new code in a fork of a pytest session that has collected the tests. What survives
there, since the function may have done its work on import, and what is mutated outside functions, such as a
default or a decorator, is imported anew: there the run starts from scratch.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import shlex
import signal
import sys
import time
import traceback
import types
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mutants import Mutant

MEMORY = 6 << 30  # bytes of address space; a mutant may ask for any amount
LOADED = (
    "hypothesis.extra.numpy",
    "orjson",
    "pyarrow.parquet",
    "jinja2.sandbox",
    "transformers.models.auto.tokenization_auto",
    "torch",
    "datasets",
    "trl.trainer.sft_trainer",
)


def prepare(copy: Path) -> None:
    """Load what tests need besides the package, and see to it that the package is the one in `copy`."""
    os.chdir(copy)
    os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    sys.path.insert(0, str(copy))
    for name in LOADED:
        importlib.import_module(name)
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)  # the first failing example says enough
    settings.register_profile("mutation", derandomize=True, database=None, deadline=None, phases=phases)
    settings.load_profile("mutation")


class _FewExamples:
    """A plugin: most mutants are noticed by the first examples, and the others are not worth hundreds."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        from hypothesis import settings

        for item in items:
            given = getattr(item, "obj", None)
            given = getattr(given, "__func__", given)
            own = getattr(given, "_hypothesis_internal_use_settings", None)
            if own is not None:
                few = settings(own, max_examples=min(50, own.max_examples))
                given._hypothesis_internal_use_settings = few


class Tests:
    """The tests of one module, in the order of running them."""

    def __init__(self, copy: Path, path: Path, tests: str, seconds: float = float("inf")) -> None:
        self.seconds = seconds  # after which no further mutant is begun
        self.path, self.source = path, path.read_text(encoding="utf-8")
        ignored = [f"-Wignore::{name}" for name in ("pytest.PytestAssertRewriteWarning", "SyntaxWarning")]
        plain = ["-p", "no:cacheprovider", "-p", "no:xdist", *ignored]
        self.arguments = [*plain, "-xsq", "--tb=no", f"--basetemp={copy.parent / 'tmp'}", *shlex.split(tests)]
        self.limit = 600.0
        self.first = copy.parent / "first"  # number of the test that notices
        self.outcomes = copy.parent / "outcomes"  # list of true, false, or null for what needs a new start

    def outcomes_of(self, mutants: list[Mutant]) -> list[bool | None]:
        """Return whether each mutant survives all tests; None for those that time did not allow to judge."""
        sys.dont_write_bytecode = False
        started = time.monotonic()
        if not self._passes(self._from_start):
            sys.exit(f"{self.path}: its tests fail without any mutation: pytest {' '.join(self.arguments)}")
        self.limit = 10 + 4 * (time.monotonic() - started)
        self.end = started + self.seconds
        sys.dont_write_bytecode = True
        for compiled in self.path.parent.glob(f"__pycache__/{self.path.stem}.*"):
            compiled.unlink()  # it would pass for the mutants', which are as long and as old
        session = os.fork()
        if not session:
            _in_fork(
                lambda: int(pytest.main(self.arguments, plugins=[_FewExamples(), _Session(self, mutants)]))
            )
        os.waitpid(session, 0)
        outcomes: list[bool | None] = json.loads(self.outcomes.read_text(encoding="utf-8"))
        missing = len(mutants) - len(outcomes)
        return [
            self.survives(mutant, self._from_start) if survives is not False and self.goes_on() else survives
            for mutant, survives in zip(mutants, outcomes + [None] * missing, strict=True)
        ]

    def goes_on(self) -> bool:
        """Whether there is time for another mutant."""
        return time.monotonic() < self.end

    def _from_start(self) -> int:
        return int(pytest.main(self.arguments, plugins=[_FewExamples()]))

    def survives(self, mutant: Mutant, run: Callable[[], int]) -> bool:
        """Whether the tests pass with `mutant` in place of the module."""
        self.path.write_text(mutant.source, encoding="utf-8")
        try:
            return self._passes(run)
        finally:
            self.path.write_text(self.source, encoding="utf-8")

    def _passes(self, run: Callable[[], int]) -> bool:
        child = os.fork()
        if not child:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            _in_fork(run)
        end = time.monotonic() + self.limit
        while not (status := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.002)
        return status[1] == 0


class _Session:
    """A plugin that runs the collected tests once for each mutant, and writes the outcomes."""

    def __init__(self, tests: Tests, mutants: list[Mutant]) -> None:
        self.tests, self.mutants = tests, mutants

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        warnings.simplefilter("ignore", SyntaxWarning)
        file = str(self.tests.path)
        functions = [one for one in gc.get_objects() if type(one) is types.FunctionType]
        functions = [function for function in functions if function.__code__.co_filename == file]
        gc.collect()
        gc.freeze()  # so that forks go on sharing the memory
        original = compile(self.tests.source, file, "exec")
        outcomes: list[bool | None] = []
        for mutant in self.mutants:
            if not self.tests.goes_on():
                break
            codes = _changed(original, compile(mutant.source, file, "exec"))
            run = partial(self._notices, session, functions, codes)
            survives = self.tests.survives(mutant, run) if codes else None
            outcomes.append(survives)
            if survives is False and self.tests.first.exists():  # it is likely to notice the next, too
                session.items.insert(0, session.items.pop(int(self.tests.first.read_text())))
                self.tests.first.unlink()
        self.tests.outcomes.write_text(json.dumps(outcomes), encoding="utf-8")
        return True

    def _notices(
        self,
        session: pytest.Session,
        functions: list[types.FunctionType],
        codes: tuple[types.CodeType, types.CodeType] | None,
    ) -> int:
        assert codes is not None
        old, new = codes
        for function in functions:
            if function.__code__ == old:
                function.__code__ = new
        for number, item in enumerate(session.items):
            follower = session.items[number + 1] if number + 1 < len(session.items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=follower)
            if session.testsfailed:
                self.tests.first.write_text(str(number))
                return 1
        return 0


def _changed(old: types.CodeType, new: types.CodeType) -> tuple[types.CodeType, types.CodeType] | None:
    """Return the code of the function that differs, before and after; None where more than that differs."""
    if old.co_code != new.co_code or old.co_names != new.co_names or len(old.co_consts) != len(new.co_consts):
        return None
    pairs: list[tuple[Any, Any]] = [
        pair for pair in zip(old.co_consts, new.co_consts, strict=True) if pair[0] != pair[1]
    ]
    if len(pairs) != 1 or not all(isinstance(code, types.CodeType) for code in pairs[0]):
        return None
    is_class = "__qualname__" in pairs[0][0].co_names
    return _changed(*pairs[0]) if is_class else pairs[0]


def _in_fork(run: Callable[[], int]) -> None:
    """End this process with what `run` returns: nothing may return into a copy of the caller."""
    code = 99
    try:
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
