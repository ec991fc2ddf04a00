"""The checks of section packing and their verdicts, on evidence made by hand."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.checks import packing
from pytest_longctx.contract import PackingLimits
from pytest_longctx.contract.stages import PackingSection
from pytest_longctx.packing.comparison import BEST_FIT, FIRST_FIT, Comparison
from pytest_longctx.verdict import Verdict
from pytest_longctx.witness import Witness
from tests.checks.sections import names


def delivered(section=None, comparison=None, window=8, shape="messages", population=None, **counted):
    """Evidence of three rows of 20 tokens in all, at a capacity of 8; samples of 8, 8 and 4 tokens."""
    numbers = {"rows": 3, "row_tokens": 20, "batches": 2, "width_tokens": 24, "piece_tokens": 20}
    numbers |= {"idle_tokens": 4, "targets": 7, "expected_targets": 9, "counts": Counter(), "witnesses": {}}
    numbers |= {
        "rows_hidden": False,
        "unseen": (),
        "flattened": 0,
        "other_texts": 0,
        "row_lengths": [8, 8, 4],
    }
    expected = SimpleNamespace(capacity=8, batch_size=16, lengths=np.array([8, 0, 8, 4]))
    return SimpleNamespace(
        contract=SimpleNamespace(packing=section, max_tokens_per_bin=8),
        dataset=SimpleNamespace(shape=shape),
        measured=SimpleNamespace(rows=3, population=population),
        pipeline=SimpleNamespace(maker="mine", expected=expected, window=lambda: window),
        audit=SimpleNamespace(comparison=comparison, **{**numbers, **counted}),
    )


class TestPacking:
    def checks(self, **given):
        return packing.checks(SimpleNamespace(packing=PackingSection(**given)))

    def test_all_invariants_are_asked_for(self):
        every = list(packing.INVARIANTS)
        assert names(self.checks(trainer="trl_sft")) == every
        every.remove("effective_window")
        assert names(self.checks()) == every
        assert names(self.checks(trainer="transformers")) == every
        assert "effective_window" in names(self.checks(trainer="mine"))
        assert "effective_window" in names(self.checks(trainer="zmine"))
        assert packing.checks(SimpleNamespace(packing=None)) == []

    def test_where_they_are_asked_for(self):
        assert {check.key for check in self.checks()} == {("packing",)}
        (only,) = self.checks(invariants=["capacity"])
        assert [only.name, only.key, only.needs] == ["capacity", ("packing", "invariants"), "audit"]

    def test_each_invariant_is_judged_by_its_own(self):
        witnesses = {name: [Witness(name)] for name in packing.INVARIANTS}
        counts = Counter(dict.fromkeys(packing.INVARIANTS, 1))
        evidence = delivered(window=7, counts=counts, witnesses=witnesses)
        for check in self.checks(trainer="trl_sft"):
            verdict = check.judge(evidence)
            told = "mine has 7, the contract 8" if check.name == "effective_window" else None
            what, advice = packing.INVARIANTS[check.name]
            assert verdict.headline == f"{check.name}: {told or f'1 × {what}'}"
            assert verdict.advice == advice

    def test_limits_follow(self):
        found = self.checks(
            invariants=["capacity"],
            limits={"min_utilization": 0.9, "max_rows_over_bound": 1.1},
            warn={"max_padding_ratio": 0.1},
        )[1:]
        assert sorted((check.name, check.key[1], check.least) for check in found) == [
            ("max_padding_ratio", "warn", False),
            ("max_rows_over_bound", "limits", False),
            ("min_utilization", "limits", True),
        ]

    def test_an_invariant_that_holds(self):
        verdict = packing.invariant("capacity", delivered())
        assert [verdict.outcome, verdict.measured, verdict.context] == ["passed", 0, ()]

    @pytest.mark.parametrize(
        ("name", "context"),
        [
            ("capacity", []),
            ("supervision_per_row", ["they hold 4 of 20 tokens"]),
            ("target_count", ["targets 7, expected 9"]),
        ],
    )
    def test_an_invariant_that_does_not(self, name, context):
        witnesses = {name: [Witness(f"row {number}") for number in range(7)]}
        verdict = packing.invariant(name, delivered(counts=Counter({name: 7}), witnesses=witnesses))
        assert [verdict.outcome, verdict.measured, len(verdict.witnesses), verdict.more] == [
            "failed",
            7,
            5,
            2,
        ]
        assert verdict.context == ("delivered by mine: 3 rows, 2 batch rows", *context)

    @pytest.mark.parametrize(
        ("name", "trainer", "named"),
        [
            ("labels_preserved", "trl_sft", True),
            ("target_count", {"name": "trl_sft", "config": {"assistant_only_loss": False}}, True),
            ("target_count", {"name": "trl_sft", "config": {"assistant_only_loss": True}}, False),
            ("token_order", "trl_sft", False),
            ("target_count", "transformers", False),
            ("target_count", "zeta", False),
            ("target_count", None, False),
        ],
    )
    def test_the_key_by_which_sfttrainer_masks_is_named_where_it_is_not_set(self, name, trainer, named):
        evidence = delivered(PackingSection(trainer=trainer), counts=Counter({name: 1}))
        advice = packing.invariant(name, evidence).advice
        assert ("assistant_only_loss: true" in advice) == named
        assert advice.startswith(packing.INVARIANTS[name][1])

    @pytest.mark.parametrize(
        ("shape", "config", "key"),
        [
            ("alpaca", {}, "assistant_only_loss"),
            ("tokenized", {}, "completion_only_loss"),
            ("tokenized", {"assistant_only_loss": True}, "completion_only_loss"),
            ("tokenized", {"completion_only_loss": True}, None),
            ("prompt_completion", {"completion_only_loss": False}, "completion_only_loss"),
            ("prompt_completion", {"completion_only_loss": None}, None),  # TRL masks such rows by default
            ("prompt_completion", {}, None),
            ("prompt_completion", {"completion_only_loss": True}, None),
            ("text", {}, None),
        ],
    )
    def test_the_key_is_that_of_the_shape(self, shape, config, key):
        section = PackingSection(trainer={"name": "trl_sft", "config": config})
        evidence = delivered(section, shape=shape, counts=Counter({"target_count": 1}))
        advice = packing.invariant("target_count", evidence).advice
        assert [part.split()[0] for part in advice.split("set ")[1:]] == ([f"{key}:"] if key else [])
        # The labels of rows in tokens are what the rows say, whatever the turns.
        assert ("every_token" in advice) == (key is not None and shape != "tokenized")

    @pytest.mark.parametrize(("window", "said"), [(8, None), (7, "7"), (9, "9"), (None, "no limit")])
    def test_the_trainers_own_limit(self, window, said):
        verdict = packing.effective_window(delivered(window=window, row_lengths=[4, 9, 8]))
        assert [verdict.measured, verdict.limit, verdict.unit] == [window, 8, "tokens"]
        assert verdict.outcome == ("failed" if said else "passed")
        if said:
            assert verdict.headline == f"effective_window: mine has {said}, the contract 8"

    def test_a_trainer_needs_no_limit_where_no_row_is_longer(self):
        """As SFTTrainer without packing, whose collator flattens batches, must have none."""
        assert packing.effective_window(delivered(window=None, row_lengths=[4, 3])).outcome == "passed"
        verdict = packing.effective_window(delivered(window=None))
        assert [verdict.outcome, verdict.measured, verdict.limit] == ["passed", None, 8]
        assert verdict.headline == "effective_window: no limit, and no row over 8"

    def test_samples_of_other_tokens_are_told_ahead_of_what_follows_from_them(self):
        found = delivered(counts=Counter({"position_ids": 1}), other_texts=1200)
        said, told = packing.invariant("position_ids", found).context
        assert said.startswith("delivered by mine")
        assert told == (
            "1,200 samples came with other tokens than the contract gives them, or without some: compare "
            "template, system prompt, tools and preprocessing first"
        )

    @pytest.mark.parametrize(
        ("trainer", "population", "told"),
        [("mine", 5, True), ("mine", None, False), ("trl_sft", 5, False), (None, 5, False)],
    )
    def test_a_trainer_of_ones_own_has_to_deliver_the_rows_that_were_drawn(self, trainer, population, told):
        section = PackingSection(trainer=trainer)
        evidence = delivered(section, population=population, counts=Counter({"capacity": 1}))
        expected = "only 3 of 5 rows were drawn (dataset.sample): the trainer must deliver these and no other"
        assert packing.invariant("capacity", evidence).context[1:] == ((expected,) if told else ())

    @pytest.mark.parametrize(
        ("name", "measured"),
        [
            ("min_utilization", 20 / 24),
            ("max_rows_over_bound", 3 / 3),  # 20 tokens need 3 rows of 8
            ("max_padding_ratio", 4 / 24),
            ("max_rows_over_optimal", 0),  # 8 | 8 | 4: no two go together
        ],
    )
    def test_what_a_limit_measures(self, name, measured):
        section = SimpleNamespace(limits=PackingLimits(**{name: 1}), warn=PackingLimits())
        verdict = packing.limit(name, delivered(section))
        assert verdict.measured == pytest.approx(measured)
        assert verdict.context[0] == "3 rows of at most 8 tokens, 20 in all"

    def test_more_rows_than_needed(self):
        section = SimpleNamespace(limits=PackingLimits(max_rows_over_optimal=1), warn=PackingLimits())
        assert packing.limit("max_rows_over_optimal", delivered(section, rows=4)).outcome == "passed"
        verdict = packing.limit("max_rows_over_optimal", delivered(section, rows=5))
        assert [verdict.outcome, verdict.measured, verdict.limit] == ["failed", 2, 1]
        over = SimpleNamespace(limits=PackingLimits(max_rows_over_bound=1.2), warn=PackingLimits())
        assert packing.limit("max_rows_over_bound", delivered(over, rows=4)).measured == pytest.approx(4 / 3)
        assert packing.limit("max_rows_over_bound", delivered(over, row_tokens=24)).measured == 1
        assert packing.limit("max_rows_over_bound", delivered(over, row_tokens=25)).measured == 3 / 4

    @pytest.mark.parametrize(
        ("exactly", "said"),
        [
            ((FIRST_FIT, BEST_FIT), "this packer is exactly first-fit decreasing and best-fit decreasing"),
            ((), "this packer uses as many rows as first-fit decreasing, filled otherwise"),
        ],
    )
    def test_what_is_said_of_the_packer(self, exactly, said):
        section = SimpleNamespace(limits=PackingLimits(min_utilization=0.8), warn=PackingLimits())
        verdict = packing.limit("min_utilization", delivered(section, Comparison(3, 3, 3, exactly, True)))
        assert verdict.outcome == "passed"
        assert verdict.context[1:] == (said, "optimal: whole samples need 3 rows at least")
        assert len(verdict.headline) < 80
        assert verdict.headline.endswith("; optimal")

    def test_what_is_said_stands_in_the_headline_as_far_as_it_fits(self):
        section = SimpleNamespace(limits=PackingLimits(min_utilization=0.8), warn=PackingLimits())
        known = Comparison(3, 3, 3, (FIRST_FIT,), True)
        headline = packing.limit("min_utilization", delivered(section, known)).headline
        assert headline == "min_utilization 83.33 %; this packer is exactly first-fit decreasing; optimal"
        warned = SimpleNamespace(limits=section.limits, warn=PackingLimits(min_utilization=0.9))
        headline = packing.limit("min_utilization", delivered(warned, known)).headline
        assert headline == "min_utilization 83.33 % < 90 %  (3 rows)"
        failed = SimpleNamespace(limits=warned.warn, warn=PackingLimits())
        assert packing.limit("min_utilization", delivered(failed, known)).headline == headline

    @pytest.mark.parametrize(("size", "fits"), [(7, True), (8, False)])
    def test_a_headline_has_79_columns(self, size, fits):
        told = packing._told(Verdict("passed", "h" * 70), ("first", "x" * size, "y: more"))
        assert told.headline == "h" * 70 + ("; " + "x" * size if fits else "; y")
        assert told.context == ("first", "x" * size, "y: more")

    def test_padding_says_nothing_of_the_packer(self):
        section = SimpleNamespace(limits=PackingLimits(max_padding_ratio=0.1), warn=PackingLimits())
        verdict = packing.limit("max_padding_ratio", delivered(section))
        assert [verdict.outcome, len(verdict.context)] == ["failed", 1]
        assert packing.limit("max_padding_ratio", delivered(section, width_tokens=50)).measured == 0.6

    def test_samples_of_one_token_need_room(self):
        section = SimpleNamespace(limits=PackingLimits(max_rows_over_optimal=9), warn=PackingLimits())
        evidence = delivered(section, rows=9)
        assert packing.limit("max_rows_over_optimal", evidence).measured == 6
        evidence.pipeline.expected.lengths = np.array([8, 1, 0])
        assert packing.limit("max_rows_over_optimal", evidence).measured == 7

    def test_a_packer_that_cannot_be_compared(self):
        section = SimpleNamespace(limits=PackingLimits(min_utilization=0.9), warn=PackingLimits())
        verdict = packing.limit("min_utilization", delivered(section))
        assert verdict.outcome == "failed"
        assert verdict.context[1].startswith("not compared with the reference packers")


class TestFlattened:
    """Batches of one row each, which may hold several packed rows: nothing that counts these is green."""

    def hidden(self, section=None, **counted):
        unseen = ("capacity", "supervision_per_row")
        return delivered(section, **({"rows_hidden": True, "unseen": unseen, "flattened": 2} | counted))

    @pytest.mark.parametrize("name", ["min_utilization", "max_rows_over_bound", "max_rows_over_optimal"])
    @pytest.mark.parametrize("kind", ["limits", "warn"])
    def test_limits_of_rows_fail_without_a_number(self, name, kind):
        given = {"limits": PackingLimits(), "warn": PackingLimits(), kind: PackingLimits(**{name: 1})}
        verdict = packing.limit(name, self.hidden(SimpleNamespace(**given)))
        assert [verdict.outcome, verdict.measured] == ["failed", None]
        assert verdict.headline == f"{name}: packed rows cannot be seen in flattened batches"
        assert verdict.context[0].startswith("mine shows no packed rows, and 2 batches of one row")
        assert "up to 16 packed rows (packing.batch_size)" in verdict.context[0]
        assert verdict.advice == "let the trainer deliver its packed rows too: Delivery(rows=…, batch=…)"

    def test_one_batch_is_told_as_one(self):
        verdict = packing.invariant("capacity", self.hidden(flattened=1))
        assert "and 1 batch of one row: each" in verdict.context[0]

    def test_padding_is_a_number_of_batches(self):
        section = SimpleNamespace(limits=PackingLimits(max_padding_ratio=0.2), warn=PackingLimits())
        verdict = packing.limit("max_padding_ratio", self.hidden(section))
        assert [verdict.outcome, verdict.measured] == ["passed", pytest.approx(4 / 24)]

    def test_invariants_of_rows_fail_as_well(self):
        for name in packing.INVARIANTS.keys() - {"effective_window"}:
            verdict = packing.invariant(name, self.hidden())
            rows = name in ("capacity", "supervision_per_row")
            assert verdict.outcome == ("failed" if rows else "passed")
            assert ("packed rows cannot be seen" in verdict.headline) == rows

    def test_an_offence_that_was_found_is_told(self):
        counted = {"unseen": (), "counts": Counter(capacity=1), "witnesses": {"capacity": [Witness("row 0")]}}
        verdict = packing.invariant("capacity", self.hidden(**counted))
        assert [verdict.outcome, verdict.measured] == ["failed", 1]
        assert verdict.context == ("delivered by mine: packed rows not seen, 2 batch rows",)
