"""For authors of packers and collators: the same invariants that contracts have, and mutants to try them on.

    from pytest_longctx.testing import assert_packer

    def test_my_packer():
        assert_packer(my_packer)

`MUTANTS` are faults that can be put into any sound packer: `mutant.failing(my_packer)` are the checks that
notice, and `mutant.checks` those that must.
"""

from __future__ import annotations

from pytest_longctx.testing import collator_mutants, packer_mutants, trainer_mutants
from pytest_longctx.testing.conformance import COLLATORS, assert_collator, assert_packer, failing_checks
from pytest_longctx.testing.examples import EXAMPLE, Case
from pytest_longctx.testing.harmless import HARMLESS
from pytest_longctx.testing.mutants import (
    Mutant,
    collator_mutant,
    packer_mutant,
    trainer_mutant,
    window_mutant,
)

MUTANTS: tuple[Mutant, ...] = (
    *packer_mutants.MUTANTS,
    *collator_mutants.MUTANTS,
    *trainer_mutants.MUTANTS,
)

__all__ = [
    "COLLATORS",
    "EXAMPLE",
    "HARMLESS",
    "MUTANTS",
    "Case",
    "Mutant",
    "assert_collator",
    "assert_packer",
    "collator_mutant",
    "failing_checks",
    "packer_mutant",
    "trainer_mutant",
    "window_mutant",
]
