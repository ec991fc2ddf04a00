"""Each mutant of template, tokenizer, rows or labels fails the checks that are there for it, and no other."""

from __future__ import annotations

import pytest

from tests.mutants.labels import data
from tests.mutants.labels.contracts import CHATML, Case, backend, completions, rows
from tests.mutants.labels.templates import TEMPLATES

SWITCHES = ("training", "trainable", "train_on_turn", "learn", "loss", "loss_mask", "mask")


def failed(case):
    return {check for check, outcome in case.outcomes().items() if outcome == "failed"}


@pytest.mark.parametrize("make", [rows, completions, data.tokens])
def test_sound_rows_pass_every_check(tmp_path, make):
    assert Case(tmp_path).write(make()).outcomes() == {}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_that(tmp_path, name):
    template, values, expected = TEMPLATES[name]
    assert failed(Case(tmp_path, template).write(values)) == expected


@pytest.mark.parametrize("name", data.ROWS)
def test_rows_with(tmp_path, name):
    values, expected, settings = data.ROWS[name]
    assert failed(Case(tmp_path, **settings).write(values)) == expected


@pytest.mark.parametrize("name", data.LABELS)
def test_labels(tmp_path, name):
    change, expected = data.LABELS[name]
    assert failed(Case(tmp_path).write(data.with_labels(change))) == expected


@pytest.mark.parametrize("name", data.TOKENIZERS)
def test_a_tokenizer_that(tmp_path, name):
    change, values, expected = data.TOKENIZERS[name]
    tokenizer = data.changed_tokenizer(change)(tmp_path / "made")
    assert failed(Case(tmp_path, tokenizer=tokenizer).write(values)) == expected


def beginning(tokenizer):
    tokenizer.bos_token = "<|im_start|>"
    return tokenizer


def test_a_template_that_writes_bos_twice(tmp_path):
    tokenizer = backend()
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    template = "{{- bos_token + bos_token -}}" + Case(tmp_path).folder.joinpath("chat.jinja").read_text(
        "utf-8"
    )
    assert failed(Case(tmp_path, template, tokenizer).write(rows())) == {"tokenizer::single_bos"}


# Llama 2 opens every exchange with BOS; so does ChatML where BOS is its start of turn.
EXCHANGES = (
    "{%- for m in messages -%}{%- if m.role == 'user' -%}"
    "{{- bos_token + '[INST] ' + m.content + ' [/INST]' -}}"
    "{%- else -%}{%- generation -%}{{- ' ' + m.content + ' <|im_end|>' -}}{%- endgeneration -%}{%- endif -%}"
    "{%- endfor -%}"
)
IN_TURNS = pytest.mark.parametrize(
    ("template", "bos"), [(EXCHANGES, "<s>"), (CHATML, "<|im_start|>")], ids=["exchanges", "turns"]
)


def with_bos(bos):
    tokenizer = backend()
    tokenizer.add_special_tokens({"bos_token": bos})
    return tokenizer


def exchanges():
    found = rows()[:2]
    del found[0]["messages"][0]
    return found


@IN_TURNS
def test_bos_in_every_turn_by_design(tmp_path, template, bos):
    assert Case(tmp_path, template, with_bos(bos)).write(exchanges()).outcomes() == {}


@IN_TURNS
def test_bos_in_every_turn_and_once_more_at_the_start(tmp_path, template, bos):
    case = Case(tmp_path, "{{- bos_token -}}" + template, with_bos(bos)).write(exchanges())
    assert failed(case) == {"tokenizer::single_bos"}


def test_bos_twice_in_every_turn_but_the_first(tmp_path):
    twice = EXCHANGES.replace("{{- bos_token +", "{{- bos_token + ('' if loop.first else bos_token) +")
    values = exchanges()[1:]
    values[0]["messages"] *= 2
    assert failed(Case(tmp_path, twice, with_bos("<s>")).write(values)) == {"tokenizer::single_bos"}


@IN_TURNS
def test_bos_in_every_turn_and_in_a_text(tmp_path, template, bos):
    values = exchanges()
    values[1]["messages"][0]["content"] = f"Say {bos} hello."
    case = Case(tmp_path, template, with_bos(bos)).write(values)
    assert failed(case) == {"tokenizer::single_bos", "dataset::control_tokens"}
    witness = case.verdict("tokenizer::single_bos").witnesses[0]
    assert witness["id"] == "one"


def test_ids_and_texts_with_bos_in_every_turn(tmp_path):
    case = Case(tmp_path, tokenizer=with_bos("<|im_start|>")).write(data.tokens())
    assert case.outcomes() == {}
    (tmp_path / "rows.jsonl").unlink()
    turns = "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>"
    assert case.write([{"uid": "text", "text": turns}]).outcomes() == {}


def test_a_tokenizer_that_adds_bos_to_a_text_that_has_it(tmp_path):
    tokenizer = data.changed_tokenizer(data.around(("<|im_start|>",), ()))(tmp_path / "made")
    case = Case(tmp_path, tokenizer=beginning(tokenizer))
    case.write([{"uid": "text", "text": "<|im_start|>Paris lies in France."}])
    assert failed(case) == {"tokenizer::single_bos"}


def test_a_template_without_the_bos_that_the_tokenizer_adds(tmp_path):
    tokenizer = data.changed_tokenizer(data.around(("<|endoftext|>",), ()))(tmp_path / "made")
    tokenizer.bos_token = "<|endoftext|>"
    assert failed(Case(tmp_path, tokenizer=tokenizer).write(rows())) == {"tokenizer::single_bos"}


def test_a_later_file_with_a_content_that_is_a_list(tmp_path):
    """load_dataset casts them to the first file's type: JSON text in place of the answer."""
    pytest.importorskip("datasets", reason="datasets is not installed")
    later = rows()[1:2]
    later[0]["uid"] = "parts"
    later[0]["messages"][0]["content"] = [{"type": "text", "text": "Say hello."}]
    case = Case(tmp_path).write(rows()[:2], "a.jsonl").write(later, "b.jsonl")
    assert failed(case) == {"dataset::arrow_round_trip"}


def test_a_fingerprint_of_another_template(tmp_path):
    case = Case(tmp_path).write(rows())
    case.contract["tokenizer"]["fingerprint"] = f"sha256:{'0' * 64}"
    assert failed(case) == {"tokenizer::pinned"}


@pytest.mark.parametrize("key", ["weight", "train", "loss_weight", *SWITCHES])
def test_weights_that_the_contract_does_not_name_are_a_warning(tmp_path, key):
    case = Case(tmp_path).write(data.with_weights(0, 0, 0, 0, 1, key=key))
    assert case.outcomes() == {"supervision::message_weight": "warned"}


@pytest.mark.parametrize("key", SWITCHES)
def test_texts_under_the_names_of_switches_are_none(tmp_path, key):
    assert Case(tmp_path).write(data.with_weights(*"abcde", key=key)).outcomes() == {}
