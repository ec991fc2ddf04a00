"""What other packages and conftest.py can add. Each hook returns names → plain callables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def pytest_longctx_packers() -> Mapping[str, Callable[..., Any]]:
    """Packers by name: `(samples, max_tokens_per_bin, **config) -> packed rows`.

    `samples` is a sequence of mappings with `input_ids` and `labels` (int64 arrays). A packed row is a
    mapping with the same two, and `seq_lengths` where it keeps samples apart.
    """
    raise AssertionError("a specification is never called")


def pytest_longctx_collators() -> Mapping[str, Callable[..., Any]]:
    """Collators by name: `(packed rows) -> batch`, as transformers has them; tensors or numpy arrays."""
    raise AssertionError("a specification is never called")


def pytest_longctx_trainers() -> Mapping[str, Callable[..., Any]]:
    """Trainers by name: `(TrainerRequest) -> object with maker, deliver(), window() and make_batch()`."""
    raise AssertionError("a specification is never called")


def pytest_longctx_datasets() -> Mapping[str, Callable[..., Any]]:
    """Datasets by name: `() -> rows`, any iterable of mappings; a contract names one as `registered:NAME`."""
    raise AssertionError("a specification is never called")


def pytest_longctx_checks() -> Mapping[str, Callable[..., Any]]:
    """Checks by name (`[a-z0-9_]`): `(Evidence) -> Verdict`; they run as `contract.yaml::custom::NAME`."""
    raise AssertionError("a specification is never called")


def pytest_longctx_report(report: dict[str, Any]) -> None:
    """Called at the end, in the controlling process, with the report that `--longctx-report` writes."""
    raise AssertionError("a specification is never called")
