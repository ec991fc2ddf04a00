from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_longctx.contract import load_contract
from pytest_longctx.evidence import Evidence
from tests.mutants.labels import data
from tests.mutants.labels.contracts import CHATML, Case, answer, rows, user


def witness(case, check):
    (found,) = case.verdict(check).witnesses
    return found


def test_turns_are_counted_one_by_one(tmp_path):
    """`all` trains both answers, `last` the second alone."""
    last = CHATML.replace("{%- generation -%}", "{%- if loop.last -%}{%- generation -%}").replace(
        "{%- endgeneration -%}",
        "{%- endgeneration -%}{%- else -%}{{- text(message.content) + '<|im_end|>' -}}{%- endif -%}",
    )
    row = [{"uid": "r", "messages": [user("Hi."), answer("Hello."), user("Ho."), answer("Hello.")]}]
    case = Case(tmp_path, last).write(row)
    found = witness(case, "supervision::turns")
    size = len(tokens_of("Hello."))
    assert found["note"] == f"answer tokens per assistant turn [0, {size}]; the policy trains turns [0, 1]"
    case.contract["supervision"] = {"turns": "last"}
    assert case.verdict("supervision::turns").outcome == "passed"


def tokens_of(text):
    return data.backend()(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(("turns", "expected"), [("all", [True, True]), ("last", [False, True])])
def test_the_policy_chooses_turns(tmp_path, turns, expected):
    case = Case(tmp_path, supervision={"turns": turns}).write(rows()[:1])
    assert case.outcomes() == {}
    ledger = Evidence(load_contract(case.folder / "contract.yaml")).measured.ledger
    assert len(ledger.turns) == sum(expected)


def test_an_end_of_turn_outside_the_span_is_told_from_none(tmp_path):
    end = "            {{- '<|im_end|>' -}}\n        {%- endgeneration -%}\n        {{- '\\n' -}}"
    outside = CHATML.replace(end, "        {%- endgeneration -%}\n        {{- '<|im_end|>\\n' -}}")
    found = witness(Case(tmp_path, outside).write(rows()[1:2]), "supervision::turn_end")
    assert found["found"] == "rendered, but outside the supervised span"
    absent = CHATML.replace(end, "        {%- endgeneration -%}\n        {{- '\\n' -}}")
    found = witness(Case(tmp_path, absent).write(rows()[1:2]), "supervision::turn_end")
    assert found["found"] == "no end of turn"


def test_the_end_of_turn_is_the_templates_not_the_tokenizers(tmp_path):
    """eos_token is another one than the template writes: what the template writes counts."""
    tokenizer = data.backend()
    tokenizer.eos_token = "<|endoftext|>"
    assert Case(tmp_path, tokenizer=tokenizer).write(rows()).outcomes() == {}


def test_a_marker_that_tokenizes_otherwise_shows_both_id_lists(tmp_path):
    """`Answer: ` with its blank is another token than `Answer:` followed by ` hi`."""
    case = Case(tmp_path, supervision={"marker": "Answer: "})
    case.write([{"uid": "t", "text": "Question? Answer: hi"}])
    note = witness(case, "supervision::present")["note"]
    marker, inside = tokens_of("Answer: "), tokens_of("Answer: hi")
    assert marker != inside[: len(marker)]
    assert note.startswith(f"marker ids {marker} are not in the row: its text has the ids [")


def test_the_seam_of_prompt_and_completion_is_reported(tmp_path):
    values = [{"uid": "seam", "prompt": "The capital of Fra", "completion": "nce is Paris."}]
    alone, whole = tokens_of("The capital of Fra"), tokens_of("The capital of France is Paris.")
    same = next(place for place, (a, b) in enumerate(zip(alone, whole, strict=False)) if a != b)
    found = witness(Case(tmp_path).write(values), "supervision::prompt_prefix")
    assert found["position"] == same
    assert found["found"] == len(alone) - same


def test_weights_are_named_or_warned_of(tmp_path):
    case = Case(tmp_path).write(data.with_weights(None, None, 0, None, 1))
    warned = case.verdict("supervision::message_weight")
    assert warned.outcome == "warned"
    assert warned.headline == "message_weight: 1 rows carry weights that the contract does not name"
    assert "TRL and transformers ignore them" in warned.advice
    case.contract["supervision"] = {"message_weight": "weight"}
    assert case.verdict("supervision::message_weight").outcome == "passed"
    ledger = Evidence(load_contract(case.folder / "contract.yaml")).measured.ledger
    assert len(ledger.turns) == 1


def test_a_switch_is_named_with_its_message_and_value(tmp_path):
    case = Case(tmp_path).write(data.with_weights(None, None, False, None, None, key="train_on_turn"))
    found = witness(case, "supervision::message_weight")
    assert (found["found"], found["note"]) == (False, "message 2: train_on_turn, which trainers ignore")


def test_kept_turns_are_told_from_kept_tokens(tmp_path):
    """The window keeps the first answer of one row and cuts it in another: half of all answers end inside."""
    long = "Rome. " * 40
    values = [
        {"uid": "kept", "messages": [user("Hi."), answer("Hello."), user("Ho."), answer("Hello.")]},
        {"uid": "lost", "messages": [user("Hi."), answer("Hello."), user("Ho."), answer(long)]},
    ]
    window = {
        "target_context_len": 100,
        "min_kept_supervised_tokens": 1,
        "max_supervision_loss_ratio": 1.0,
        "limits": {"min_kept_turn_ratio": 0.75},
    }
    case = Case(tmp_path, window=window).write(values)
    verdict = case.verdict("window::min_kept_turn_ratio")
    # Four answers; the last one of the second row loses its end, so three are whole.
    assert verdict.measured == 0.75
    assert verdict.outcome == "passed"
    case.contract["window"]["limits"]["min_kept_turn_ratio"] = 0.8
    assert case.verdict("window::min_kept_turn_ratio").outcome == "failed"


@pytest.fixture
def qwen3(tmp_path):
    folder = os.environ.get("LONGCTX_REAL_DATA")
    if not folder:
        pytest.skip("LONGCTX_REAL_DATA is not set")
    pytest.importorskip("trl", reason="trl is not installed")
    case = Case(tmp_path)
    path = str(Path(folder, "qwen3_tokenizer"))
    case.contract["tokenizer"] = {"path": path, "chat_template": "trl:qwen3_training"}
    return case


def test_what_qwen3_makes_of_empty_answers_lists_and_unknown_roles(qwen3):
    """An empty answer still trains its scaffolding; lists and roles that it ignores train nothing."""
    parts = [{"type": "text", "text": "Hello."}]
    qwen3.write(
        [
            {"uid": "sound", "messages": [user("Hi."), answer("Hello.")]},
            {"uid": "empty", "messages": [user("Hi."), answer("")]},
            {"uid": "parts", "messages": [user("Hi."), answer(parts)]},
            {
                "uid": "roles",
                "messages": [{"role": "human", "content": "Hi."}, {"role": "bot", "content": "Hello."}],
            },
        ]
    )
    present = {row["id"]: row["note"] for row in qwen3.verdict("supervision::present").witnesses}
    # <think>, two newlines as one token, </think>, two newlines, <|im_end|>, and the newline behind it.
    assert present["empty"] == "6 supervised tokens, all from the template"
    assert present["roles"] == "the row renders to no token"
    assert present.keys() == {"empty", "parts", "roles"}
    survives = {row["id"]: row["found"] for row in qwen3.verdict("dataset::content_survives").witnesses}
    assert survives == {"parts": 0.0, "roles": 0.0}
