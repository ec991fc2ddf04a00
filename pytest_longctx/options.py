"""Options and ini keys of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.sections import CUSTOM, SECTIONS

if TYPE_CHECKING:
    import pytest

# What a check may be skipped for: a GPU, a package, an attention of section isolation.
REQUIREMENTS = (
    "gpu",
    "datasets",
    "eager",
    "sdpa",
    "flex_attention",
    "flash_attention_2",
    "flash_attention_3",
)


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """What a run of contracts is told."""
    group.addoption(
        "--longctx-contract",
        action="append",
        default=[],
        metavar="FILE",
        help="run the checks of this contract; may be given several times",
    )
    group.addoption(
        "--longctx-require",
        action="append",
        default=[],
        choices=REQUIREMENTS,
        help="fail, not skip, what needs this and cannot run here; may be given several times",
    )
    for name, metavar, purpose in (
        ("show", "ROW_ID", "print one sample, token by token, and run nothing"),
        ("cache", "off|DIR", "where measured rows are kept; default: pytest's cache folder, in CI off"),
        ("gpu-record", "FILE", "write what section gpu measured; an older record is never overwritten"),
    ):
        group.addoption(f"--longctx-{name}", metavar=metavar, help=purpose)
    group.addoption(
        "--longctx-gpu",
        choices=("dry_run", "cpu", "real"),
        help="how section gpu runs; default: real where there is a GPU, else dry_run",
    )
    group.addoption(
        "--longctx-jobs",
        default="1",
        metavar="N|auto",
        help="processes that measure rows; auto: one for two cores where the data are worth it",
    )
    group.addoption(
        "--longctx-engine",
        choices=("processes", "ray"),
        default="processes",
        help="where rows are measured: in processes of this machine, or on the Ray cluster at RAY_ADDRESS",
    )
    group.addoption(
        "--longctx-exchange",
        default="",
        metavar="URL",
        help="an object store for what Ray tasks measure, where the nodes share no cache folder",
    )
    parser.addini(
        "longctx_cache_gib", "size of the cache folder, in GiB; rows not used for longest go", default="4"
    )
    parser.addini("longctx_contracts", "contracts that run beside ordinary tests", type="paths", default=[])


def add_markers(config: pytest.Config) -> None:
    """One marker for all checks, one a section, and `gpu`."""
    config.addinivalue_line("markers", "longctx: a check of a data contract")
    for section in (*SECTIONS, CUSTOM):
        config.addinivalue_line("markers", f"longctx_{section}: a check of the section {section}")
    config.addinivalue_line("markers", "gpu: needs a GPU")
