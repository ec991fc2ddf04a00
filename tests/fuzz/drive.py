"""Fuzz one target with atheris: `python tests/fuzz/drive.py rows -max_total_time=600`.

Needs `pip install atheris`. New inputs go to a folder of one's own, given first among libFuzzer's arguments;
the seeds beside this file are read as well. libFuzzer keeps an input that fails as `crash-…`: put it into the
seeds of its target, where it stays a test.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))
with atheris.instrument_imports(include=["pytest_longctx", "yaml"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Run until libFuzzer's own limits end it."""
    name, *arguments = sys.argv[1:]
    seeds = str(Path(__file__).parent / "seeds" / name)
    atheris.Setup([sys.argv[0], *arguments, seeds], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
