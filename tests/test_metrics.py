from __future__ import annotations

import json
import math
import re

import pytest

from pytest_longctx.curriculum import MetricsError
from pytest_longctx.metrics import read_metrics, read_trainer_metrics

METRICS = {
    "long_context_score": 0.63,
    "short_context_score": 0.81,
    "supervised_tokens_per_optimizer_step": 8192,
    "loss_finite": True,
    "gradients_finite": False,
    "failed_runs": 0,
    "peak_memory_gb": 9.8,
    "cost_per_supervised_token": 1.25,
}
STATE = {
    "log_history": [
        {"step": 1, "loss": 2.5, "grad_norm": 1.0},
        {"step": 2, "loss": 2.0, "grad_norm": 0.5},
        {"step": 2, "train_runtime": 10.0},
    ],
    "num_input_tokens_seen": 100,
}
EVALUATION = {
    "results": {"ruler.8k": {"acc,none": 0.63, "alias": "ruler"}, "mmlu": {"acc,none": 0.81}},
    "budget": {"supervised": 8192, "failed": 0},
    "peak_memory_gb": 9.8,
    "cost_per_supervised_token": 1.25,
}
PATHS = {
    "long_context_score": "ruler.8k.acc,none",
    "short_context_score": "results.mmlu.acc,none",
    "supervised_tokens_per_optimizer_step": "budget.supervised",
    "failed_runs": "budget.failed",
    "peak_memory_gb": "peak_memory_gb",
    "cost_per_supervised_token": "cost_per_supervised_token",
}


@pytest.fixture
def write(tmp_path):
    def write(name, value):
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    return write


class TestFlatFile:
    def test_read(self, write):
        assert read_metrics(write("8k.json", METRICS | {"note": "kept out"})) == METRICS

    def test_a_baseline_needs_three_keys(self, write):
        three = dict(list(METRICS.items())[:3])
        assert read_metrics(write("4k.json", three), baseline=True) == three

    def test_window(self, write):
        path = write("8k.json", METRICS | {"target_context_len": 4096})
        assert read_metrics(path, 4096) == read_metrics(path) == METRICS | {"target_context_len": 4096}
        with pytest.raises(MetricsError, match=r"8k\.json: metrics of window 4096, expected those of 8192$"):
            read_metrics(path, 8192)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("{", ":1:2: is not JSON: Expecting property name"),
            ("[1]", ": expected an object, found list"),
            ({}, ": long_context_score is missing; short_context_score is missing"),
            (METRICS | {"failed_runs": "0"}, ": failed_runs is '0', expected a number"),
            (METRICS | {"peak_memory_gb": math.nan}, ": peak_memory_gb is nan, expected a finite number"),
            (METRICS | {"failed_runs": -1}, ": failed_runs is -1, expected 0 or more"),
            (
                METRICS | {"supervised_tokens_per_optimizer_step": 0},
                ": supervised_tokens_per_optimizer_step is 0, expected more than 0",
            ),
            (
                METRICS | {"failed_runs": 10**400},
                ": failed_runs is an integer beyond every float, expected a",
            ),
            (METRICS | {"loss_finite": "true"}, ": loss_finite is 'true', expected true or false"),
            (METRICS | {"gradients_finite": 1}, ": gradients_finite is 1, expected true or false"),
        ],
    )
    def test_refusals(self, write, content, message):
        with pytest.raises(MetricsError, match=re.escape(f"8k.json{message}")):
            read_metrics(write("8k.json", content))

    @pytest.mark.parametrize(
        ("window", "found"),
        [
            ("no", "'no'"),
            (None, "None"),
            (True, "True"),
            (0, "0"),
            (-8, "-8"),
            (8192.5, "8192.5"),
            (2**31, "2147483648"),
            (math.nan, "nan"),
            pytest.param(10**400, "an integer beyond every float", id="huge"),
        ],
    )
    def test_what_is_no_window(self, write, window, found):
        path = write("4k.json", METRICS | {"target_context_len": window})
        message = f"4k.json: target_context_len is {found}, expected a whole number from 1 to 2147483647"
        for expected in (None, 1, 8192):
            with pytest.raises(MetricsError, match=rf"{re.escape(message)}$"):
                read_metrics(path, expected)

    @pytest.mark.parametrize("window", [1, 8192.0, 2**31 - 1])
    def test_windows_of_all_sizes(self, write, window):
        path = write("4k.json", METRICS | {"target_context_len": window})
        found = read_metrics(path, baseline=True)["target_context_len"]
        assert (found, type(found)) == (window, int)

    def test_a_key_twice(self, write):
        text = json.dumps(METRICS)
        twice = text.replace('"failed_runs": 0', '"failed_runs": 3, "failed_runs": 0')
        with pytest.raises(
            MetricsError,
            match=r"8k\.json: found key 'failed_runs' 2 times in one object, expected it once; keep one$",
        ):
            read_metrics(write("8k.json", twice))
        inner = text[:-1] + ', "note": {"a": 1, "b": 2, "a": 1, "a": 1}}'
        with pytest.raises(MetricsError, match="found key 'a' 3 times in one object"):
            read_metrics(write("8k.json", inner))

    def test_a_missing_flag(self, write):
        path = write("8k.json", {key: METRICS[key] for key in METRICS if key != "loss_finite"})
        with pytest.raises(MetricsError, match="loss_finite is missing, expected true or false"):
            read_metrics(path)

    def test_unreadable_files(self, tmp_path):
        with pytest.raises(MetricsError, match=r"absent\.json: cannot be read: No such file or directory"):
            read_metrics(tmp_path / "absent.json")
        with pytest.raises(MetricsError, match="cannot be read: found a folder, device, pipe or socket"):
            read_metrics(tmp_path)
        (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
        with pytest.raises(MetricsError, match=r"latin\.json: is not UTF-8 at byte 7"):
            read_metrics(tmp_path / "latin.json")


class TestTrainerRun:
    def read(self, write, state=STATE, evaluation=EVALUATION, paths=PATHS, **options):
        return read_trainer_metrics(
            write("trainer_state.json", state), write("eval.json", evaluation), paths, **options
        )

    def test_read(self, write):
        assert self.read(write) == METRICS | {"gradients_finite": True}

    @pytest.mark.parametrize(
        ("entry", "loss", "gradients"),
        [
            ({"loss": math.nan}, False, True),
            ({"grad_norm": math.inf}, True, False),
            ({"loss": "nan", "grad_norm": None}, False, False),
            ({"eval_loss": math.nan}, False, True),
            ({"train_loss": math.inf, "train_runtime": 3.0}, False, True),
            ({"eval_wiki_loss": None}, False, True),
            ({"eval_loss": 2.5, "lossless": "no", "loss_scale": math.inf}, True, True),
            ({"loss": True}, False, True),
            ({"grad_norm": False}, True, False),
            pytest.param({"loss": 10**400, "grad_norm": 10**400}, False, False, id="huge"),
            ({"max_grad_norm": math.inf}, True, True),
        ],
    )
    def test_flags_come_from_the_log(self, write, entry, loss, gradients):
        metrics = self.read(write, STATE | {"log_history": [*STATE["log_history"], entry]})
        assert (metrics["loss_finite"], metrics["gradients_finite"]) == (loss, gradients)

    def test_flags_can_be_mapped(self, write):
        evaluation = EVALUATION | {"stable": True}
        paths = PATHS | {"loss_finite": "stable", "gradients_finite": "stable"}
        metrics = self.read(write, {"log_history": []}, evaluation, paths)
        assert (metrics["loss_finite"], metrics["gradients_finite"]) == (True, True)

    def test_the_trainer_state_is_looked_in_last(self, write):
        paths = PATHS | {"supervised_tokens_per_optimizer_step": "num_input_tokens_seen"}
        assert self.read(write, paths=paths)["supervised_tokens_per_optimizer_step"] == 100

    def test_a_baseline_needs_no_log(self, write):
        paths = dict(list(PATHS.items())[:3])
        assert self.read(write, {}, paths=paths, baseline=True) == dict(list(METRICS.items())[:3])

    def test_a_silent_log(self, write):
        with pytest.raises(MetricsError, match=r"trainer_state\.json: no loss in log_history"):
            self.read(write, {"log_history": [{"step": 1, "eval_loss": 1.0}]})

    def test_a_path_that_leads_nowhere(self, write):
        with pytest.raises(
            MetricsError, match=r"map: failed_runs: 'budget\.fail' is neither in .*eval\.json"
        ):
            self.read(write, paths=PATHS | {"failed_runs": "budget.fail"})

    @pytest.mark.parametrize(
        ("evaluation", "state", "places"),
        [
            ({"mmlu": {"acc,none": 0.95}}, {}, r"0\.95 in .*eval\.json and 0\.81 in results of .*eval\.json"),
            (
                {},
                {"mmlu": {"acc,none": 0}},
                r"0\.81 in results of .*eval\.json and 0 in .*trainer_state\.json",
            ),
            (
                {"mmlu": {"acc,none": 0.81}, "mmlu.acc,none": 0.8},
                {},
                r"0\.8 in .*eval\.json and 0\.81 in res",
            ),
        ],
    )
    def test_a_path_that_leads_to_two_values(self, write, evaluation, state, places):
        paths = PATHS | {"short_context_score": "mmlu.acc,none"}
        with pytest.raises(
            MetricsError,
            match=rf"map: short_context_score: 'mmlu\.acc,none' is {places}.*, expected one value; w",
        ):
            self.read(write, STATE | state, EVALUATION | evaluation, paths)

    def test_a_path_that_leads_to_one_value_twice(self, write):
        state = STATE | {"peak_memory_gb": 9.8}
        assert self.read(write, state)["peak_memory_gb"] == 9.8

    def test_an_unknown_metric(self, write):
        with pytest.raises(MetricsError, match="map: unknown metric 'long_score', expected one of cost_per_"):
            self.read(write, paths=PATHS | {"long_score": "peak_memory_gb"})

    def test_a_metric_that_is_not_mapped(self, write):
        paths = {key: PATHS[key] for key in PATHS if key != "peak_memory_gb"}
        with pytest.raises(MetricsError, match="peak_memory_gb is missing"):
            self.read(write, paths=paths)

    def test_another_window(self, write):
        evaluation = EVALUATION | {"config": {"window": 4096}}
        paths = PATHS | {"target_context_len": "config.window"}
        assert self.read(write, evaluation=evaluation, paths=paths)["target_context_len"] == 4096
        with pytest.raises(MetricsError, match="metrics of window 4096, expected those of 8192"):
            self.read(write, evaluation=evaluation, paths=paths, target_context_len=8192)
