"""Mutation testing of the package's own code: `python tests/mutation/run.py [--sample N] [MODULE …]`.

Needs `pip install cosmic-ray`, which makes the mutants, and Linux or macOS. Works on a copy of the checkout.
Prints for each module how many mutants its tests noticed, and those that they did not, below their line.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import module_from_spec, spec_from_file_location
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from forks import Tests, prepare
from mutants import mutants_of

if TYPE_CHECKING:
    from mutants import Mutant

ROOT = Path(__file__).parents[2]
TESTS = yaml.safe_load(Path(__file__).with_name("tests.yaml").read_text(encoding="utf-8"))
EXPLAINED = yaml.safe_load(Path(__file__).with_name("explained.yaml").read_text(encoding="utf-8"))


def main() -> int:
    """Run the named modules or packages, or all; 1 when a mutant survived without an explanation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MODULE", help="such as window, packing/bounds or checks")
    parser.add_argument("--sample", type=int, help="mutants of each module, drawn with a fixed seed")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each module, at most")
    options = parser.parse_args()
    chosen = [name for name in TESTS if not options.names or {name, name.split("/")[0]} & {*options.names}]
    with tempfile.TemporaryDirectory(prefix="longctx-mutation-") as folder:
        copy = Path(folder, "checkout")
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in filter(None, subprocess.check_output(listed, cwd=ROOT, text=True).split("\0")):
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
        prepare(copy)
        return int(sum([_module(copy, name, options) for name in chosen]) > 0)


def _module(copy: Path, module: str, options: argparse.Namespace) -> int:
    """Print what the tests of a module notice; return the number of unexplained survivors."""
    started = time.monotonic()
    path = copy / "pytest_longctx" / f"{module}.py"
    every = mutants_of(path.read_text(encoding="utf-8"))
    size = len(every) if options.sample is None else min(options.sample, len(every))
    drawn = random.Random(module).sample(every, size)
    outcomes = Tests(copy, path, TESTS[module], options.seconds).outcomes_of(drawn)
    mutants = [mutant for mutant, survives in zip(drawn, outcomes, strict=True) if survives is not None]
    survivors = [mutant for mutant, survives in zip(drawn, outcomes, strict=True) if survives]
    unexplained = [mutant for mutant in survivors if not _is_explained(module, mutant)]
    noticed = len(mutants) - len(survivors)
    print(
        f"{module}: {noticed} of {len(mutants)} mutants noticed{_among(noticed, mutants, every)}; "
        f"{len(survivors) - len(unexplained)} explained, {len(unexplained)} not; "
        f"{time.monotonic() - started:.0f} s"
    )
    for old, group in groupby(unexplained, key=lambda mutant: mutant.old):
        print(f"  {old}", *(f"    {mutant.new}" for mutant in group), sep="\n")
    sys.stdout.flush()
    return len(unexplained)


def _among(noticed: int, drawn: list[Mutant], every: list[Mutant]) -> str:
    """Of a sample, how many mutants there are, and what it tells of the score of all."""
    if len(drawn) == len(every):
        return ""
    # Loaded by its path: the package itself must not be loaded yet where its mutants run.
    spec = spec_from_file_location("longctx_intervals", ROOT / "pytest_longctx" / "intervals.py")
    assert spec is not None
    assert spec.loader is not None
    intervals = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(intervals)
    score = intervals.proportion(noticed, len(drawn))
    return f", drawn from {len(every)}: {score.low:.0%} to {score.high:.0%} with 95 % confidence"


def _is_explained(module: str, mutant: Mutant) -> bool:
    """Whether explained.yaml names this mutant, or its line as one on which no result depends."""
    return any(
        mutant.old == group["line"] and ("becomes" not in group or mutant.new in group["becomes"])
        for group in EXPLAINED.get(module, ())
    )


if __name__ == "__main__":
    sys.exit(main())
