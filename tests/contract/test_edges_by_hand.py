"""Where a rule of a section begins to hold: the last value that is refused, and the first that is not."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pytest_longctx.contract.runs import CurriculumBatch, GpuSection
from pytest_longctx.contract.stages import (
    LengthsSection,
    PackingSection,
    WindowLimits,
    WindowSection,
)


def sound(section, **given):
    try:
        section(**given)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(("short", "long", "holds"), [(4, 8, True), (8, 8, True), (9, 8, False)])
def test_thresholds_in_order(short, long, holds):
    assert sound(LengthsSection, short_threshold=short, long_threshold=long) is holds


@pytest.mark.parametrize(
    ("short", "long", "holds"), [(0.5, 0.5, True), (0.25, 0.5, True), (0.75, 0.5, False), (0.5, None, True)]
)
def test_shares_add_up_to_one_at_most(short, long, holds):
    for where in ("limits", "warn"):
        shares = {"min_short_share": short, "min_long_share": long}
        assert sound(LengthsSection, short_threshold=4, long_threshold=8, **{where: shares}) is holds


@pytest.mark.parametrize(("kept", "holds"), [(7, True), (8, True), (9, False)])
def test_what_must_be_kept_fits_the_window(kept, holds):
    given = {"target_context_len": 8, "max_supervision_loss_ratio": 0.5}
    assert sound(WindowSection, min_kept_supervised_tokens=kept, **given) is holds


@pytest.mark.parametrize(
    ("name", "limit", "warn", "holds"),
    [
        ("max_overflow_ratio", 0.2, 0.1, True),
        ("max_overflow_ratio", 0.2, 0.2, True),
        ("max_overflow_ratio", 0.2, 0.3, False),
        ("min_kept_turn_ratio", 0.2, 0.3, True),
        ("min_kept_turn_ratio", 0.2, 0.2, True),
        ("min_kept_turn_ratio", 0.2, 0.1, False),
    ],
)
def test_a_warning_comes_before_its_limit(name, limit, warn, holds):
    given = {
        "target_context_len": 8,
        "min_kept_supervised_tokens": 1,
        "max_supervision_loss_ratio": 0.5,
        "limits": {name: limit},
        # Others before and behind it, of which only one side is set.
        "warn": {name: warn, "max_truncated_ratio": 0.5},
    }
    assert sound(WindowSection, **given) is holds


def test_counts_of_tokens_have_31_bits():
    given = {"min_kept_supervised_tokens": 1, "max_supervision_loss_ratio": 0.5}
    assert sound(WindowSection, target_context_len=2**31 - 1, **given)
    assert not sound(WindowSection, target_context_len=2**31, **given)
    whole = {"target_context_len": 2**31 - 1, "max_supervision_loss_ratio": 0.5}
    assert sound(WindowSection, min_kept_supervised_tokens=2**31 - 1, **whole)
    assert not sound(WindowSection, min_kept_supervised_tokens=2**31, **whole)


def test_sections_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        WindowLimits().max_overflow_ratio = 0.5


class TestPacking:
    @pytest.mark.parametrize(
        ("trainer", "feed", "mode"),
        [
            (None, None, "admitted"),
            ("mine", None, "all"),
            (None, "all", "all"),
            ("mine", "admitted", "admitted"),
        ],
    )
    def test_what_is_fed(self, trainer, feed, mode):
        assert PackingSection(trainer=trainer, feed=feed).feed_mode == mode

    def test_invariants_that_are_wanted(self):
        assert PackingSection().wants("capacity")
        assert PackingSection(invariants="all").wants("position_ids")
        one = PackingSection(invariants=["capacity"])
        assert one.wants("capacity")
        assert not one.wants("position_ids")
        but = PackingSection(invariants={"except": ["capacity"], "reason": "known"})
        assert not but.wants("capacity")
        assert but.wants("position_ids")

    @pytest.mark.parametrize(
        ("trainer", "holds"), [(None, True), ("trl_sft", False), ("mine", True), ("zmine", True)]
    )
    def test_a_packer_beside_a_trainer_that_packs(self, trainer, holds):
        assert sound(PackingSection, trainer=trainer, packer="ffd") is holds


class TestGpu:
    @pytest.mark.parametrize(
        ("lengths", "holds"),
        [([2], True), ([1], False), ([2, 3], True), ([3, 3], False), ([4, 3], False), ([], False)],
    )
    def test_lengths_that_grow(self, lengths, holds):
        assert sound(GpuSection, sequence_lengths=lengths) is holds

    @pytest.mark.parametrize(("length", "holds"), [(1, False), (2, True), (3, True)])
    def test_samples_with_a_target(self, length, holds):
        assert sound(GpuSection, packing_sample_lengths=[length, 8]) is holds

    def test_what_is_not_set(self):
        section = GpuSection()
        assert section.sequence_lengths == [128, 256, 512]
        assert [section.repeat_steps, section.seed] == [10, 42]


def test_a_batch_of_one_row():
    batch = CurriculumBatch()
    assert [batch.rows_per_device, batch.gradient_accumulation] == [1, 1]
