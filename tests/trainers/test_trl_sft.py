from __future__ import annotations

import json
import re

import pytest

from pytest_longctx.checks.packing import invariant
from pytest_longctx.errors import LongctxError

from .conftest import EXAMPLES, chat, example_rows, failing

pytest.importorskip("trl")

WINDOW = 1024
FLAT = {"position_ids", "cumulative_boundaries", "sequence_indices", "mask_agrees"}


@pytest.fixture(scope="module")
def rows():
    return example_rows("support", 24)


def sft(**config):
    settings = {"assistant_only_loss": True, "max_length": WINDOW, **config}
    trainer = {"name": "trl_sft", "config": settings}
    return {"max_tokens_per_bin": WINDOW, "batch_size": 2, "trainer": trainer}


@pytest.mark.parametrize(
    "config",
    [
        {"packing": True},
        {"packing": True, "packing_strategy": "bfd_split"},
        {"packing": True, "shuffle_dataset": True},
        {"packing": True, "pad_to_multiple_of": 64},
        {"packing": False},
        {"packing": False, "padding_free": True, "max_length": None},
        {"packing": False, "per_device_train_batch_size": 5},
    ],
    ids=lambda config: "-".join(map(str, config.values())),
)
def test_sound_settings_pass(make_evidence, rows, config):
    evidence = make_evidence(rows, sft(**config), WINDOW)
    assert failing(evidence) == set()
    audit = evidence.audit
    assert audit.row_tokens == evidence.measured.ledger.total.sum()
    assert audit.targets == audit.expected_targets == evidence.measured.ledger.supervised.sum()


def test_packing_by_several_processes_leaves_remainders(make_evidence, rows):
    one, two = (make_evidence(rows, sft(packing=True, dataset_num_proc=number), WINDOW) for number in (1, 2))
    assert failing(two) == set()
    assert one.audit.rows <= two.audit.rows


def test_wrapping_cuts_answers_apart(make_evidence, rows):
    evidence = make_evidence(rows, sft(packing=True, packing_strategy="wrapped"), WINDOW)
    assert failing(evidence) == {"position_ids", "orphan_fragments", "target_count"}


def test_loss_on_every_token_is_not_what_the_contract_says(make_evidence, rows):
    evidence = make_evidence(rows, sft(packing=True, assistant_only_loss=False), WINDOW)
    assert failing(evidence) == {"labels_preserved", "target_count"}
    # TRL divides by what it trains, which is more than the contract's turns.
    assert "the trainer's num_items_in_batch" in {w.note for w in evidence.audit.witnesses["target_count"]}
    for name in ("labels_preserved", "target_count"):
        assert "assistant_only_loss: true" in invariant(name, evidence).advice


def test_loss_on_every_token_where_the_contract_says_so(make_evidence, rows):
    evidence = make_evidence(rows, sft(packing=True, assistant_only_loss=False), WINDOW, "every_token")
    assert failing(evidence) == set()


def test_the_default_length_is_found(make_evidence, rows):
    packing = {
        "max_tokens_per_bin": 4096,
        "trainer": {"name": "trl_sft", "config": {"assistant_only_loss": True}},
    }
    long = chat("long", "Count. " * 200, "one two three " * 600)
    evidence = make_evidence([*rows, long], packing, 4096)
    total = int(evidence.measured.ledger.total[-1])
    assert evidence.pipeline.window() == 1024 < total
    (witness,) = evidence.audit.witnesses["sample_conservation"]
    assert (witness.id, witness.found) == ("long", f"cut, {total - 1024:,} tokens lost")


def test_an_end_of_turn_of_the_users_own(make_evidence, rows):
    assert failing(make_evidence(rows, sft(packing=True, eos_token="<|endoftext|>"), WINDOW)) == set()


def test_a_padding_token_of_the_users_own(make_evidence, rows):
    evidence = make_evidence(rows, sft(packing=False, pad_token="<|im_end|>"), WINDOW)
    assert failing(evidence) == set()
    assert evidence.audit.width_tokens > evidence.audit.piece_tokens, "no row is padded"
    assert evidence.pipeline.pad_token_id() == 2  # <|im_end|>, where the contract's tokenizer has 0


def test_a_template_path_is_relative_to_the_contract(make_evidence, rows, tmp_path):
    template = (EXAMPLES / "chatml.jinja").read_text(encoding="utf-8")
    (tmp_path / "own.jinja").write_text(template.removesuffix("\n"), encoding="utf-8")
    assert failing(make_evidence(rows, sft(packing=True, chat_template_path="own.jinja"), WINDOW)) == set()


OTHER = "trainer trl_sft uses chat_template_path own.jinja, the contract another template: "


@pytest.fixture
def other_template(tmp_path):
    template = (EXAMPLES / "chatml.jinja").read_text(encoding="utf-8")
    changed = template.replace("'<|im_start|>assistant\\n'", "'<|im_start|>model\\n'")
    assert changed != template
    (tmp_path / "own.jinja").write_text(changed, encoding="utf-8")
    return sft(packing=True, chat_template_path="own.jinja")


def test_another_template_than_the_contracts_is_named(make_evidence, rows, other_template):
    evidence = make_evidence(rows[:4], other_template, WINDOW)
    with pytest.raises(LongctxError) as told:
        _ = evidence.audit
    assert str(told.value) == f"{OTHER}set tokenizer.chat_template to the same file"


def test_another_template_that_nothing_is_rendered_with(make_evidence, rows, other_template):
    evidence = make_evidence(rows[:4], {**other_template, "feed": "admitted"}, WINDOW)
    assert failing(evidence) == set()


def test_admitted_samples_are_fed_cut_as_planned(make_evidence, rows):
    long = chat("long", "Count. " * 20, "one two three " * 600)
    contract = {**sft(packing=True), "feed": "admitted"}
    evidence = make_evidence([*rows, long], contract, WINDOW)
    assert failing(evidence) == set()
    assert evidence.audit.row_tokens == evidence.pipeline.expected.lengths.sum()


def test_rows_of_prompt_and_completion(make_evidence):
    rows = [
        {"uid": str(number), "prompt": f"Which number is it? {number}.", "completion": f" It is {number}."}
        for number in range(12)
    ]
    trainer = {"name": "trl_sft", "config": {"packing": True, "max_length": 256}}
    evidence = make_evidence(rows, {"max_tokens_per_bin": 256, "trainer": trainer}, 256, "completion")
    assert failing(evidence) == set()


def test_converted_rows(make_evidence):
    rows = [
        {
            "uid": str(number),
            "instruction": f"Say {number}.",
            "input": "",
            "output": f"{number}, as you like.",
        }
        for number in range(12)
    ]
    assert failing(make_evidence(rows, sft(packing=True), WINDOW)) == set()


def test_template_variables_reach_the_trainer(make_evidence, rows, tmp_path):
    template = (EXAMPLES / "chatml.jinja").read_text(encoding="utf-8")
    (tmp_path / "own.jinja").write_text("{{- greeting -}}" + template)
    tokenizer = {
        "path": str(EXAMPLES / "tokenizer"),
        "chat_template": "own.jinja",
        "template_kwargs": {"greeting": "Good day. "},
    }
    evidence = make_evidence(rows[:6], sft(packing=True), WINDOW, tokenizer=tokenizer)
    assert failing(evidence) == set()


def test_files_with_other_columns_are_read_as_the_contract_reads_them(make_evidence, rows, tmp_path):
    tools = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:3]))
    (tmp_path / "b.jsonl").write_text(
        "".join(json.dumps({**row, "tools": tools}) + "\n" for row in rows[3:6])
    )
    assert "sample_conservation" not in failing(make_evidence(["a.jsonl"][0], sft(packing=True), WINDOW))


def test_refused_settings_are_named(make_evidence, rows):
    evidence = make_evidence(rows, sft(packing=True, max_lenght=5), WINDOW)
    with pytest.raises(LongctxError, match=re.escape("trainer trl_sft cannot be built: TypeError")):
        _ = evidence.audit


@pytest.mark.parametrize(
    ("window", "told"),
    [
        (4, "no sample is admitted, expected one at least: see window::policy and dataset::rows"),
        (
            WINDOW,
            "trainer trl_sft keeps no row: none has a supervised token within its max_length of 4 tokens",
        ),
    ],
)
@pytest.mark.parametrize("feed", ["all", "admitted"])
def test_a_trainer_that_keeps_no_row(make_evidence, rows, feed, window, told):
    """Of the template alone the first four tokens of each row are."""
    evidence = make_evidence(rows[:3], {**sft(max_length=4), "feed": feed}, window)
    with pytest.raises(LongctxError, match=f"^{re.escape(told)}$"):
        _ = evidence.audit


def test_rows_that_no_window_admits_are_delivered_all_the_same(make_evidence, rows):
    """A trainer with a longer limit than the window is judged by what it delivers."""
    assert "sample_conservation" in failing(make_evidence(rows[:3], sft(), 4))


def test_the_trainer_is_built_once(make_evidence, rows, monkeypatch):
    import trl

    built = []
    original = trl.SFTTrainer.__init__
    monkeypatch.setattr(
        trl.SFTTrainer, "__init__", lambda self, *a, **k: (built.append(1), original(self, *a, **k))[1]
    )
    evidence = make_evidence(rows[:4], sft(packing=True), WINDOW)
    assert (evidence.audit.rows, evidence.pipeline.window(), evidence.audit.rows) == (2, WINDOW, 2)
    assert built == [1]
