from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest

import pytest_longctx
from pytest_longctx import (
    audit_context_fit,
    build_boundary_isolated_packing,
    check_long_context_framework_conformance,
    evaluate_length_curriculum_stage,
    pack_sample_lengths,
    summarize_length_distribution,
)
from pytest_longctx.conformance import SAMPLES, conformance_checks
from tests.releases import since


def sample(name, prompt, supervised):
    return {"name": name, "prompt_tokens": prompt, "supervised_tokens": supervised}


class TestLengths:
    def test_by_hand(self):
        assert summarize_length_distribution([64, 128, 300, 900], 128, 512) == {
            "count": 4,
            "buckets": {"short": 2, "medium": 1, "long": 1},
            "p50_tokens": 128,
            "p95_tokens": 900,
        }

    def test_empty(self):
        assert summarize_length_distribution([], 128, 512) == {
            "count": 0,
            "buckets": {"short": 0, "medium": 0, "long": 0},
            "p50_tokens": 0,
            "p95_tokens": 0,
        }

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([1, -1], 1, 2), r"lengths\[1\] must be at least 0, is -1"),
            (([1], 3, 2), "long_threshold 2 is below short_threshold 3"),
            (([True], 1, 2), r"lengths\[0\] must be an integer, is True"),
            (([1.0], 1, 2), r"lengths\[0\] must be an integer, is 1\.0"),
            (([1], "1", 2), "short_threshold must be an integer, is '1'"),
        ],
    )
    def test_refusals(self, arguments, message):
        with pytest.raises(ValueError, match=f"^{message}$"):
            summarize_length_distribution(*arguments)


class TestContextFit:
    def test_by_hand(self):
        samples = [sample("short", 300, 80), sample("exact", 1760, 256), sample("over", 1761, 256)]
        result = audit_context_fit(samples, 2048, 32)
        assert result["records"][1] == {
            "name": "exact",
            "total_tokens": 2048,
            "kept_supervised_tokens": 256,
            "supervision_loss_ratio": 0.0,
            "decision": "fit",
        }
        assert result["records"][2] == {
            "name": "over",
            "total_tokens": 2049,
            "kept_supervised_tokens": 0,
            "supervision_loss_ratio": 1 / 256,
            "decision": "overflow",
        }
        assert result["fit_names"] == ["short", "exact"]
        assert result["truncated_names"] == []
        assert result["overflow_names"] == ["over"]

    def test_truncation(self):
        # 112 - 8 - 80 leaves room for 24 of 40: 40 % are lost.
        result = audit_context_fit([sample("tail", 80, 40)], 112, 8, 20, 0.4)
        assert result["truncated_names"] == ["tail"]
        assert result["records"][0]["kept_supervised_tokens"] == 24
        assert result["records"][0]["supervision_loss_ratio"] == 0.4
        assert result["records"][0]["decision"] == "truncate"
        strict = audit_context_fit([sample("tail", 80, 40)], 112, 8, 20, 0.1)
        assert strict["overflow_names"] == ["tail"]
        assert strict["records"][0]["kept_supervised_tokens"] == 0
        assert strict["records"][0]["supervision_loss_ratio"] == 0.4

    def test_nothing(self):
        result = audit_context_fit([], 10, 0)
        assert result == {"records": [], "fit_names": [], "truncated_names": [], "overflow_names": []}

    def test_plain_values(self):
        result = audit_context_fit([sample("a", 1, 1)], 10, 0)
        assert json.loads(json.dumps(result)) == result

    @pytest.mark.parametrize(
        ("samples", "options", "message"),
        [
            ([sample("a", 1, 0)], {}, r"samples\[0\]\.supervised_tokens must be at least 1, is 0"),
            ([sample("a", -1, 1)], {}, r"samples\[0\]\.prompt_tokens must be at least 0, is -1"),
            ([sample("a", True, 1)], {}, r"samples\[0\]\.prompt_tokens must be an integer, is True"),
            ([{"name": "a", "prompt_tokens": 1}], {}, r"samples\[0\]: supervised_tokens is missing"),
            ([{"prompt_tokens": 1, "supervised_tokens": 1}], {}, r"samples\[0\]: name is missing"),
            ([sample(7, 1, 1)], {}, r"samples\[0\]\.name must be text, is 7"),
            ([], {"target_context_len": 0}, "target_context_len must be at least 1, is 0"),
            ([], {"template_tokens": -1}, "template_tokens must be at least 0, is -1"),
            ([], {"max_supervision_loss_ratio": 1.1}, r".*_loss_ratio must lie between 0 and 1, is 1\.1"),
            ([], {"max_supervision_loss_ratio": "0"}, ".*_loss_ratio must be a number, is '0'"),
            ([], {"min_kept_supervised_tokens": -1}, "min_kept_.* must be at least 0, is -1"),
        ],
    )
    def test_refusals(self, samples, options, message):
        with pytest.raises(ValueError, match=f"^{message}$"):
            audit_context_fit(samples, **{"target_context_len": 10, "template_tokens": 0} | options)


class TestPackLengths:
    def test_by_hand(self):
        packed = pack_sample_lengths([7, 6, 4, 3], 10)
        assert packed == {"bins": [[7, 3], [6, 4]], "utilization": 1.0}
        assert json.loads(json.dumps(packed)) == packed
        assert pack_sample_lengths([3, 3, 3], 5) == {"bins": [[3], [3], [3]], "utilization": 0.6}

    def test_nothing(self):
        assert pack_sample_lengths([], 10) == {"bins": [], "utilization": 0.0}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([129], 128), "length 129 at index 0 exceeds the capacity of 128 tokens"),
            (([1, 0], 128), r"lengths\[1\] must be at least 1, is 0"),
            (([1], 0), "max_tokens_per_bin must be at least 1, is 0"),
            (([False], 4), r"lengths\[0\] must be an integer, is False"),
        ],
    )
    def test_refusals(self, arguments, message):
        with pytest.raises(ValueError, match=f"^{message}$"):
            pack_sample_lengths(*arguments)


class TestPacking:
    def test_by_hand(self):
        packed = build_boundary_isolated_packing(
            [
                {"input_ids": [11, 12, 13], "labels": [-100, 12, 13]},
                {"input_ids": [21, 22], "labels": [-100, 22]},
            ]
        )
        assert packed["input_ids"] == [11, 12, 13, 21, 22]
        assert packed["labels"] == [-100, 12, 13, -100, 22]
        assert packed["segment_ids"] == [0, 0, 0, 1, 1]
        assert packed["position_ids"] == [0, 1, 2, 0, 1]
        assert packed["attention_allowed"] == [
            [True, False, False, False, False],
            [True, True, False, False, False],
            [True, True, True, False, False],
            [False, False, False, True, False],
            [False, False, False, True, True],
        ]
        assert json.loads(json.dumps(packed)) == packed

    @pytest.mark.parametrize(
        ("samples", "message"),
        [
            ([], "there is no sample to pack"),
            ([{"input_ids": [1, 2], "labels": [1]}], r"samples\[0\]: 2 input_ids and 1 labels, .*"),
            ([{"input_ids": [1]}], r"samples\[0\]: labels is missing"),
            ([{"input_ids": [], "labels": []}], r"samples\[0\] has no tokens"),
            ([{"input_ids": [True], "labels": [1]}], r"samples\[0\]\.input_ids\[0\] must be an integer, .*"),
            ([{"input_ids": "12", "labels": [1, 2]}], r"samples\[0\]\.input_ids must be a list, is str"),
            ([{"input_ids": [-1], "labels": [1]}], r"samples\[0\]\.input_ids\[0\] must be at least 0, is -1"),
        ],
    )
    def test_refusals(self, samples, message):
        with pytest.raises(ValueError, match=f"^{message}$"):
            build_boundary_isolated_packing(samples)


BASELINE = {
    "long_context_score": 0.56,
    "short_context_score": 0.82,
    "supervised_tokens_per_optimizer_step": 8192,
}
LIMITS = {
    "min_long_context_gain": 0.04,
    "max_short_context_regression": 0.02,
    "max_failed_runs": 0,
    "max_peak_memory_gb": 10.5,
    "max_cost_per_supervised_token": 1.4,
}


class TestCurriculum:
    def judge(self, long, short, tokens, finite, runs, memory, cost):
        candidate = {
            "long_context_score": long,
            "short_context_score": short,
            "supervised_tokens_per_optimizer_step": tokens,
            "loss_finite": finite,
            "gradients_finite": finite,
            "failed_runs": runs,
            "peak_memory_gb": memory,
            "cost_per_supervised_token": cost,
        }
        return evaluate_length_curriculum_stage(BASELINE, candidate, LIMITS)

    def test_advance(self):
        result = self.judge(0.63, 0.81, 8192, True, 0, 9.8, 1.25)
        assert result == {
            "decision": "advance",
            "failed_gates": [],
            "evidence": {
                "token_budget_matches": True,
                "long_context_gain": pytest.approx(0.07),
                "short_context_regression": pytest.approx(0.01),
            },
        }

    def test_hold(self):
        result = self.judge(0.64, 0.77, 4096, True, 0, 11.2, 1.3)
        assert result["decision"] == "hold"
        assert result["failed_gates"] == [
            "token_budget_mismatch",
            "short_context_regression",
            "peak_memory_budget",
        ]
        assert result["evidence"]["token_budget_matches"] is False

    def test_a_run_that_diverged(self):
        result = self.judge(0.63, 0.81, 8192, False, 1, 9.8, 1.25)
        assert result["failed_gates"] == ["nonfinite_loss", "nonfinite_gradients", "failed_runs"]

    def test_missing_keys(self):
        with pytest.raises(ValueError, match=r"^candidate: long_context_score is missing; "):
            evaluate_length_curriculum_stage(BASELINE, {}, LIMITS)


# Rows and batch as TRL makes them of the four, the two and the three tokens.
ROWS = [
    {"input_ids": [11, 12, 13, 14, 31, 32], "labels": [-100, 12, 13, 14, -100, 32], "seq_lengths": [4, 2]},
    {"input_ids": [21, 22, 23], "labels": [21, 22, 23], "seq_lengths": [3]},
]
BATCH = {
    "input_ids": [[11, 12, 13, 14, 31, 32, 21, 22, 23]],
    "labels": [[-100, 12, 13, 14, -100, 32, -100, 22, 23]],
    "position_ids": [[0, 1, 2, 3, 0, 1, 0, 1, 2]],
    "cu_seq_lens_q": [0, 4, 6, 9],
    "cu_seq_lens_k": [0, 4, 6, 9],
    "max_length_q": 4,
    "max_length_k": 4,
    "seq_idx": [[0, 0, 0, 0, 1, 1, 2, 2, 2]],
}


class TestConformance:
    @since("trl", "1.16")
    def test_trl_conforms(self):
        pytest.importorskip("trl", reason="trl is not installed")
        result = check_long_context_framework_conformance()
        assert result["status"] == "passed"
        assert result["packing_strategy"] == "bfd"
        assert result["max_length"] == 6
        assert result["packed_row_lengths"] == [6, 3]
        assert result["sequence_lengths"] == [[4, 2], [3]]
        assert len(result["checks"]) == 9
        assert set(result["checks"].values()) == {True}
        assert set(result["versions"]) == {"trl", "transformers", "torch", "datasets"}
        assert json.loads(json.dumps(result)) == result

    @since("trl", "1.16")
    def test_it_prints_nothing(self, capfd):
        pytest.importorskip("trl", reason="trl is not installed")
        check_long_context_framework_conformance()
        assert capfd.readouterr() == ("", "")

    def test_without_trl(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "trl", None)
        result = check_long_context_framework_conformance()
        assert result["status"] == "skipped"
        assert "pip install 'pytest-longctx[trl]'" in result["reason"]
        assert result["checks"] == {}

    def test_a_failed_check_is_named(self, monkeypatch):
        pytest.importorskip("trl", reason="trl is not installed")
        broken = BATCH | {"seq_idx": [[0] * 9]}
        monkeypatch.setattr("pytest_longctx.conformance._collate", lambda rows: broken)
        with pytest.raises(AssertionError, match=r"^TRL .* does not conform: sequence_indices$"):
            check_long_context_framework_conformance()

    def test_samples_are_of_four_three_and_two_tokens(self):
        assert [len(sample["input_ids"]) for sample in SAMPLES] == [4, 3, 2]

    def test_what_is_right_passes(self):
        assert set(conformance_checks(ROWS, BATCH).values()) == {True}

    @pytest.mark.parametrize(
        ("field", "value", "check"),
        [
            ("labels", [[-100, 12, 13, 14, -100, 32, 21, 22, 23]], "boundary_labels_masked"),
            ("labels", [[-100, 12, 13, 14, -100, 32, -100, 22, -100]], "labels_preserved"),
            ("position_ids", [[*range(9)]], "position_ids"),
            ("cu_seq_lens_q", [0, 6, 9], "cumulative_boundaries"),
            ("cu_seq_lens_k", [0, 9], "cumulative_boundaries"),
            ("seq_idx", [[0, 0, 0, 0, 0, 0, 1, 1, 1]], "sequence_indices"),
            ("attention_mask", [[1] * 9], "padding_free_fields"),
        ],
    )
    def test_each_fault_of_a_batch(self, field, value, check):
        found = conformance_checks(ROWS, BATCH | {field: value})
        assert [name for name, passed in found.items() if not passed] == [check]

    def test_an_absent_field(self):
        batch = {name: value for name, value in BATCH.items() if name != "max_length_k"}
        found = conformance_checks(ROWS, batch)
        assert [name for name, passed in found.items() if not passed] == ["padding_free_fields"]

    def test_faults_of_rows(self):
        def failed(rows):
            return {name for name, passed in conformance_checks(rows, BATCH).items() if not passed}

        one_row = {name: ROWS[0][name] + ROWS[1][name] for name in ROWS[0]}
        assert failed([one_row]) == {"rows_within_capacity"}
        swapped = copy.deepcopy(ROWS)
        swapped[1]["input_ids"] = [21, 23, 22]
        assert failed(swapped) == {"token_order"}
        unmasked = copy.deepcopy(ROWS)
        unmasked[0]["labels"] = unmasked[0]["input_ids"]
        assert failed(unmasked) == {"labels_preserved"}
        assert "sample_identity" in failed(ROWS[:1])


class TestPublicNames:
    def test_every_name_is_there(self):
        assert set(pytest_longctx.__all__) <= set(dir(pytest_longctx))
        for name in pytest_longctx.__all__:
            assert callable(getattr(pytest_longctx, name))

    def test_table_and_names_agree(self):
        assert sorted(pytest_longctx._HOMES) == sorted(pytest_longctx.__all__)

    def test_an_unknown_name(self):
        with pytest.raises(AttributeError, match="module 'pytest_longctx' has no attribute 'packer'"):
            _ = pytest_longctx.packer

    def test_importing_the_package_loads_nothing(self):
        code = (
            "import sys; before = set(sys.modules); import pytest_longctx; dir(pytest_longctx); "
            "print({'numpy', 'pydantic', 'yaml', 'orjson', 'transformers'} & (set(sys.modules) - before))"
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == "set()"
