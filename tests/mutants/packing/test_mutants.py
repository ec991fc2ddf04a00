from __future__ import annotations

import pytest

from pytest_longctx.packing.collators import build_collator
from pytest_longctx.packing.packers import shipped_packers
from pytest_longctx.testing import HARMLESS, MUTANTS, Case, failing_checks
from pytest_longctx.testing.__main__ import table
from pytest_longctx.testing.examples import EXAMPLE, PAD

FLASH = {"return_flash_attn_kwargs": True, "return_seq_idx": True}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fails_exactly_its_checks(mutant):
    assert mutant.failing().keys() == mutant.checks


@pytest.mark.parametrize("mutant", HARMLESS, ids=lambda mutant: mutant.name)
def test_sound_variant_fails_nothing(mutant):
    assert mutant.checks == frozenset()
    assert mutant.failing() == {}


def test_there_are_forty_mutants_of_every_kind_with_names_of_their_own():
    assert len(MUTANTS) >= 40
    assert {mutant.stage for mutant in MUTANTS} == {"packer", "collator", "trainer", "window"}
    assert len({mutant.name for mutant in (*MUTANTS, *HARMLESS)}) == len(MUTANTS) + len(HARMLESS)


def test_every_check_of_a_batch_has_a_mutant():
    from pytest_longctx.checks.packing import INVARIANTS

    caught = frozenset().union(*(mutant.checks for mutant in MUTANTS))
    assert caught == INVARIANTS.keys()


def test_a_trainers_limit_is_named_beside_the_contracts():
    named = {mutant.name: mutant for mutant in MUTANTS}
    found = {
        name: [(w.id, w.expected, w.found) for w in named[name].failing()["effective_window"]]
        for name in ("keeps_its_default_limit", "has_no_limit")
    }
    assert found == {
        "keeps_its_default_limit": [("the trainer's limit", 24, 1024)],
        "has_no_limit": [("the trainer's limit", 24, "none")],
    }


def test_table_sums_up():
    lines = list(table())
    assert lines[-1] == f"mutants killed {len(MUTANTS)} / {len(MUTANTS)}, false alarms 0 / {len(HARMLESS)}"
    assert not any("must be" in line for line in lines)


def test_mutants_find_faults_in_other_packers():
    one_a_row = shipped_packers({})["none"]
    masks_a_row = next(mutant for mutant in MUTANTS if mutant.name == "masks_a_row")
    assert masks_a_row.failing(one_a_row).keys() == masks_a_row.checks


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize(
    ("collator", "config"),
    [
        ("block_mask", {}),
        ("padded", {}),
        ("trl_padding_free", {}),
        ("trl_padding_free", {"pad_to_multiple_of": 8}),
        ("flattening", {}),
        ("flattening", FLASH),
        ("flattening", {**FLASH, "return_tensors": "np"}),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, dict) else value,
)
@pytest.mark.parametrize("packer", ["ffd", "bfd", "trl_bfd", "trl_bfd_split", "none"])
def test_shipped_pipelines_fail_nothing(packer, collator, config, batch_size):
    if collator in ("trl_padding_free", "flattening") or packer.startswith("trl"):
        pytest.importorskip("trl")
    pack = shipped_packers({})[packer]
    assert failing_checks(pack, build_collator(collator, config, PAD), EXAMPLE, batch_size) == {}


@pytest.mark.parametrize(("batch_size", "sizes"), [(1000, [4, 4, 2]), (3, [3, 3, 3, 1])])
def test_remainders_of_map_batches_show_in_the_rows(batch_size, sizes):
    pytest.importorskip("trl")
    ten = Case([{"input_ids": [place], "labels": [place]} for place in range(1, 11)], capacity=4)
    rows = shipped_packers({"batch_size": batch_size})["trl_bfd"](ten.admitted, 4)
    assert [len(row["input_ids"]) for row in rows] == sizes
