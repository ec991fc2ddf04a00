"""Mutation testing of the package's own code: `python tests/mutation/run.py [MODULE …]`.

Needs `pip install cosmic-ray`. Works on a copy of the checkout: mutants are written into the files. Prints
the score of each module, and the mutants that no test noticed, as diffs.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
MEMORY = 4 << 30
# Module → the tests that must notice its mutants.
MODULES = {
    "window": "tests/test_window.py",
    "lengths": "tests/test_lengths.py",
    "curriculum": "tests/test_curriculum.py",
    "intervals": "tests/test_intervals.py",
    "packing/reference": "tests/packing/test_reference.py tests/packing/test_bounds.py",
}
# Mutants that change nothing: imports for type checkers, dataclasses that nobody writes to, `zip` over lists
# whose lengths are equal by construction.
EQUIVALENT = re.compile(r"^-\s*(if TYPE_CHECKING:|@dataclass\(frozen=)|strict=True", re.MULTILINE)
# `X | None` in annotations.
CONFIG = """
[cosmic-ray]
module-path = "pytest_longctx/{module}.py"
timeout = 60.0
excluded-modules = []
test-command = "{python} -m pytest -x -q -p no:cacheprovider --hypothesis-seed=0 {tests}"

[cosmic-ray.distributor]
name = "local"

[cosmic-ray.filters.operators-filter]
exclude-operators = ["core/ReplaceBinaryOperator_BitOr_.*"]
"""


def main(names: list[str]) -> int:
    """Run the named modules, or all; 1 when a mutant survived."""
    # A mutant may ask for any amount of memory; it must not get it from the others on the machine.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="longctx-mutation-") as folder:
        copy = Path(folder) / "checkout"
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, tracked.decode().split("\0")):
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
        for name in names or list(MODULES):
            survivors += _mutate(copy, name)
    return int(survivors > 0)


def _mutate(copy: Path, module: str) -> int:
    (copy / "mutation.toml").write_text(
        CONFIG.format(module=module, python=sys.executable, tests=MODULES[module])
    )
    _tool(copy, "cosmic-ray", "init", "mutation.toml", "session.sqlite", "--force")
    _tool(copy, "cr-filter-operators", "session.sqlite", "mutation.toml")
    _tool(copy, "cosmic-ray", "exec", "mutation.toml", "session.sqlite")
    done = [json.loads(line) for line in _tool(copy, "cosmic-ray", "dump", "session.sqlite").splitlines()]
    results = [result for _, result in done if result and not EQUIVALENT.search(result["diff"] or "")]
    alive = [result for result in results if result["test_outcome"] == "survived"]
    print(f"{module}: {len(results) - len(alive)} of {len(results)} mutants noticed", flush=True)
    for result in alive:
        print("\n".join(line for line in result["diff"].splitlines() if line[:1] in "-+@"), flush=True)
    return len(alive)


def _tool(copy: Path, name: str, *arguments: str) -> str:
    path = Path(sys.executable).with_name(name)
    ended = subprocess.run([path, *arguments], cwd=copy, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{name} {' '.join(arguments)}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
