"""Broken models, calls and losses are all caught, and by the check that is there for it."""

from __future__ import annotations

import pytest

from pytest_longctx.isolation import FORMS, probe
from tests.isolation import mutants

CALL = {"use_cache": False}
BEHAVIOUR = ("logits", "gradients", "standalone")


def ask(model, form="position_ids", checks=BEHAVIOUR, **terms):
    return probe(model, "eager", FORMS[form], CALL, checks=checks, **terms)


@pytest.mark.parametrize("name", mutants.LEAKING_MODELS)
def test_a_leaking_model_leaks(name):
    result = ask(mutants.LEAKING_MODELS[name](), checks=("logits",))["logits"]
    assert result.outcome == "leaks", result.message
    assert result.measured > 0


def test_a_leak_of_the_backward_pass_alone_is_seen_by_gradients_alone():
    results = ask(mutants.with_states(mutants.gradient_only))
    assert [results[name].outcome for name in BEHAVIOUR] == ["isolated", "leaks", "isolated"]


@pytest.mark.parametrize(
    "name", ["mask ignored", "last layer only", "one head", "only beyond eight tokens", "later samples seen"]
)
def test_gradients_see_what_logits_see(name):
    assert ask(mutants.LEAKING_MODELS[name](), checks=("gradients",))["gradients"].outcome == "leaks"


def test_the_future_is_named_by_logits_and_gradients():
    results = ask(mutants.LEAKING_MODELS["future seen inside a sample"]())
    assert "later tokens of its own sample" in results["logits"].message
    assert "later tokens of its own sample" in results["gradients"].message


@pytest.mark.parametrize("name", mutants.WRONG_MODELS)
def test_an_isolated_model_that_answers_otherwise_is_wrong(name):
    results = ask(mutants.WRONG_MODELS[name]())
    assert [results[check].outcome for check in BEHAVIOUR] == ["isolated", "isolated", "wrong"]


def test_rows_that_see_each_other_leak():
    model = mutants.LEAKING_MODELS["normalised over the batch"]()
    assert ask(model, "one_a_row", ("logits",))["logits"].outcome == "leaks"


@pytest.mark.parametrize("name", mutants.WRONG_LOSSES)
def test_a_loss_that_is_not_token_weighted_is_wrong(name):
    loss, why = mutants.WRONG_LOSSES[name]
    result = ask(mutants.model_of(), checks=("logits", "loss"), loss=loss)["loss"]
    assert result.outcome == "wrong"
    assert why in result.message


def test_a_loss_averaged_per_row_is_wrong():
    result = ask(mutants.model_of(), "two_rows", ("loss",), loss=mutants.mean_over_rows)["loss"]
    assert result.outcome == "wrong"
    assert "mean over rows" in result.message


def test_labels_that_cross_a_sample_start_are_counted():
    def make(samples):
        batch = FORMS["position_ids"](samples)
        return batch | {"labels": batch["input_ids"].copy()}

    result = probe(mutants.model_of(), "eager", make, CALL, checks=("loss",))["loss"]
    assert result.outcome == "wrong"
    assert "4 targets too many" in result.message  # five samples in the row, four starts behind the first


def test_the_loss_of_a_leaking_model_leaks():
    result = ask(mutants.LEAKING_MODELS["mask ignored"](), checks=("logits", "loss"))["loss"]
    assert result.outcome == "leaks"


def test_the_leak_is_placed():
    result = ask(mutants.LEAKING_MODELS["only the token before"](), checks=("logits",), layouts=[(5, 3, 4)])
    leak = result["logits"]
    pairs = {(w.note.split(",")[0], w.segment, w.position) for w in leak.witnesses}
    assert pairs == {("change from segment 0", 1, 5), ("change from segment 1", 2, 8)}
    assert "2 pairs" in leak.message
    assert "first seen 1 token away" in leak.message


def test_the_distance_of_a_far_leak():
    model = mutants.with_masks(lambda s, n: s | (mutants.ages(n) == 9), slice(1, None))
    leak = ask(model, checks=("logits",), layouts=[(2, 4, 8)])["logits"]
    # Token 9 reads token 0, eight behind the last token of segment 0; token 11 reads token 2, of segment 1.
    assert {(w.segment, w.position) for w in leak.witnesses} == {(2, 9), (2, 11)}
    assert sorted(w.note.split("first seen ")[1] for w in leak.witnesses) == [
        "6 tokens away",
        "8 tokens away",
    ]


def test_a_control_that_does_not_leak_is_reported():
    model = mutants.with_masks(lambda s, n: mutants.ages(n) == 0, mutants.ALL)
    results = ask(model)
    assert {r.outcome for r in results.values()} == {"unknown"}
    assert "the probe is broken for this model" in results["logits"].message


def test_samples_may_come_in_any_order():
    """A packer may reorder its samples: they are found by their ids."""

    def reversed_row(samples):
        return FORMS["position_ids"](samples[::-1])

    result = probe(mutants.model_of(), "eager", reversed_row, CALL, checks=BEHAVIOUR)
    assert {r.outcome for r in result.values()} == {"isolated"}
    assert result["logits"].measured == 0.0
