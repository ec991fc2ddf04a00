"""The checks of a section and their verdicts, on evidence made by hand."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from pytest_longctx.checks import dataset, isolation, supervision, tokenizer
from pytest_longctx.isolation import ProbeResult
from pytest_longctx.witness import Witness
from tests.checks.sections import found, names, terms


class TestSupervision:
    def test_its_checks(self):
        assert names(supervision.checks(terms())) == [
            *("present", "roles", "turns", "turn_end", "labels_match_ids", "prompt_prefix", "message_weight")
        ]
        assert names(supervision.checks(terms("tokenized"))) == names(supervision.checks(terms("alpaca")))
        assert supervision.checks(terms("lengths")) == []

    @pytest.mark.parametrize(
        ("weight", "key"), [(None, ("supervision",)), ("weight", ("supervision", "message_weight"))]
    )
    def test_where_weights_are_asked_for(self, weight, key):
        last = supervision.checks(terms(weight=weight))[-1]
        assert [last.section, last.key, last.needs] == ["supervision", key, "measured"]

    @pytest.mark.parametrize("name", ["roles", "turns", "turn_end"])
    def test_advice_for_rows_of_ids_too(self, name):
        judge = next(check for check in supervision.checks(terms()) if check.name == name).judge
        assert "the labels of rows of ids" in judge(found(1, f"supervision::{name}")).advice

    def test_weights_that_nobody_named(self):
        verdict = supervision.message_weight(found(0))
        assert [verdict.outcome, verdict.measured, verdict.limit, verdict.unit] == [
            "passed",
            0,
            0,
            "offences",
        ]
        verdict = supervision.message_weight(found(12))
        assert [verdict.outcome, verdict.measured, verdict.limit] == ["warned", 12, 0]
        assert verdict.headline == "message_weight: 12 rows carry weights that the contract does not name"
        assert [row["id"] for row in verdict.witnesses] == [f"row {number}" for number in range(5)]
        assert verdict.more == 7

    def test_weights_that_the_contract_names(self):
        named = terms(weight="weight")
        assert supervision.message_weight(found(0, contract=named)).outcome == "passed"
        verdict = supervision.message_weight(found(6, contract=named))
        assert [verdict.outcome, verdict.measured, verdict.limit, verdict.more] == ["failed", 6, 0, 1]


class TestDataset:
    def test_its_checks(self):
        assert names(dataset.checks(terms())) == [
            *("rows", "roles", "tool_arguments", "content_survives", "control_tokens", "arrow_round_trip")
        ]
        assert names(dataset.checks(terms("alpaca"))) == names(dataset.checks(terms()))
        assert names(dataset.checks(terms("lengths"))) == ["rows"]

    def rows(self, rows, **rejected):
        problems = [
            SimpleNamespace(id=f"f:{at}", kind="broken_json", message="no")
            for at in range(sum(rejected.values()))
        ]
        measured = SimpleNamespace(rows=rows, rejected=Counter(rejected), problems=problems)
        note = SimpleNamespace(note="one file")
        return dataset.rows(SimpleNamespace(contract=terms(), measured=measured, dataset=note))

    def test_rows_that_can_be_read(self):
        verdict = self.rows(1_200)
        assert [verdict.outcome, verdict.measured, verdict.limit] == ["passed", 0, 0]
        assert verdict.headline == "rows: 1,200, one file"

    def test_no_row_is_no_pass(self):
        verdict = self.rows(0)
        assert [verdict.outcome, verdict.measured, verdict.limit, verdict.unit] == ["failed", 0, 1, "rows"]
        assert verdict.headline == "rows: no row in rows.jsonl"

    @pytest.mark.parametrize(("broken", "shown", "more"), [(3, 4, 0), (4, 5, 0), (6, 5, 2)])
    def test_rows_that_cannot_be_used(self, broken, shown, more):
        verdict = self.rows(20, broken_json=broken, empty_render=1)
        assert [verdict.outcome, verdict.measured, verdict.limit] == ["failed", broken + 1, 0]
        assert verdict.headline == f"rows: {broken + 1} of 20 rows cannot be used"
        assert verdict.context == (f"{broken} × broken_json, 1 × empty_render", "one file")
        assert [len(verdict.witnesses), verdict.more] == [shown, more]
        assert verdict.witnesses[0] == {"id": "f:0", "kind": "broken_json", "found": "no"}

    @pytest.mark.parametrize(
        "packing", [None, SimpleNamespace(trainer=None), SimpleNamespace(trainer="trl_sft")]
    )
    def test_files_that_the_loader_refuses(self, packing):
        look = SimpleNamespace(refused="types differ")
        evidence = SimpleNamespace(contract=terms(packing=packing), round_trip=look)
        verdict = dataset.arrow_round_trip(evidence)
        if packing is not None and packing.trainer:
            assert [verdict.outcome, verdict.measured, verdict.limit] == ["failed", 1, 0]
            assert verdict.context == ("types differ",)
        else:
            assert verdict.outcome == "skipped"
            assert verdict.headline.endswith("these load_dataset does not read together: types differ")


class TestTokenizer:
    def test_its_checks(self):
        checks = tokenizer.checks(terms())
        assert names(checks) == [
            *("pinned", "deterministic_template", "single_bos", "offsets", "prefix_render")
        ]
        assert checks[0].key == ("tokenizer",)
        assert tokenizer.checks(terms(fingerprint="ab"))[0].key == ("tokenizer", "fingerprint")
        assert tokenizer.checks(terms("lengths")) == []
        assert names(tokenizer.checks(terms("alpaca"))) == names(checks)
        without = terms()
        without.tokenizer = None
        assert tokenizer.checks(without) == []

    @pytest.mark.parametrize(("wanted", "outcome"), [(None, "passed"), ("ab", "passed"), ("cd", "failed")])
    def test_the_fingerprint(self, wanted, outcome):
        mine = SimpleNamespace(fingerprint="".join(["a", "b"]))
        verdict = tokenizer.pinned(SimpleNamespace(contract=terms(fingerprint=wanted), tokenizer=mine))
        assert verdict.outcome == outcome
        assert verdict.context == (("expected cd", "found    ab") if outcome == "failed" else ())

    def test_a_fingerprint_that_comes_first_in_the_alphabet(self):
        mine = SimpleNamespace(fingerprint="ab")
        verdict = tokenizer.pinned(SimpleNamespace(contract=terms(fingerprint="aa"), tokenizer=mine))
        assert verdict.outcome == "failed"


class TestIsolation:
    def test_its_checks(self):
        assert isolation.checks(terms()) == []
        both = SimpleNamespace(attention=["sdpa", "flash_attention_2"])
        checks = isolation.checks(terms(isolation=both))
        assert names(checks) == [*isolation.QUESTIONS, *isolation.QUESTIONS, "dispatch"]
        assert [check.part for check in checks] == ["sdpa"] * 5 + ["flash_attention_2"] * 6
        assert {(check.key, check.needs) for check in checks} == {(("isolation", "attention"), "probes")}

    def asked(self, name="logits", required=(), **given):
        told = {"measured": None, "limit": 0.1, **given}
        result = ProbeResult(name, "sdpa", **told) if given else None
        answers = {name: result} if result else {}
        settings = SimpleNamespace(required=frozenset(required))
        return isolation.ask(name, "sdpa", SimpleNamespace(probes=lambda _: answers, settings=settings))

    def test_a_question_that_need_not_be_asked(self):
        assert self.asked().outcome == "skipped"

    def test_isolated(self):
        verdict = self.asked(outcome="isolated", message="equal", measured=0.0, limit=0.1)
        assert [verdict.outcome, verdict.headline] == ["passed", "logits sdpa: equal"]
        assert [verdict.measured, verdict.limit, verdict.unit] == [0.0, 0.1, "number"]

    def test_what_cannot_be_asked_here(self):
        verdict = self.asked(outcome="unknown", message="no kernel")
        assert [verdict.outcome, verdict.headline] == ["skipped", "logits sdpa: no kernel"]
        assert self.asked(outcome="unknown", message="no kernel", required=["sdpa"]).outcome == "failed"

    @pytest.mark.parametrize(
        ("required", "outcome"), [("gpu", "failed"), ("sdpa", "failed"), ("x", "skipped")]
    )
    def test_what_lacks_more_than_its_attention(self, required, outcome):
        told = {"message": "no device", "requirement": "gpu", "required": [required]}
        verdict = self.asked(outcome="unknown", **told)
        assert verdict.outcome == outcome
        assert verdict.headline.startswith(required) == (outcome == "failed")

    @pytest.mark.parametrize(("count", "shown", "more"), [(2, 2, 0), (5, 5, 0), (7, 5, 2)])
    def test_leaks(self, count, shown, more):
        witnesses = tuple(Witness(f"sample {at}", 0.0, 1.5, position=at, note="n") for at in range(count))
        verdict = self.asked(
            outcome="leaks", message="they see", measured=1.5, limit=0.1, witnesses=witnesses
        )
        assert [verdict.outcome, verdict.headline] == ["failed", "logits sdpa: leaks, by 1.5"]
        assert [len(verdict.witnesses), verdict.more] == [shown, more]
        assert verdict.witnesses[1] == {
            "where": "sample 1",
            "position": 1,
            "expected": 0.0,
            "found": 1.5,
            "note": "n",
        }
        assert verdict.context == ("they see",)
        assert verdict.advice.startswith("pass position_ids without")
        assert "say isolation.forward: {use_cache: false} in the contract" in verdict.advice

    def test_the_contracts_own_call_comes_first(self):
        table = ({"call": "a", "mask": ""}, {"call": "b", "contract": "yes"}, {"call": 3})
        verdict = self.asked("call_matrix", outcome="wrong", message="m", table=table)
        assert verdict.headline == "call_matrix sdpa: wrong"
        assert verdict.witnesses == ({"call": "b", "contract": "yes"}, {"call": "a"}, {"call": 3})
        assert verdict.more == 0
        assert verdict.advice.startswith("isolated, but not what")
