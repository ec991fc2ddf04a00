from __future__ import annotations

import pytest

LENGTHS = "lengths: {short_threshold: 1, long_threshold: 2, "
STAGE = "{name: a, target_context_len: 8, metrics: m.json}"
GATES = (
    "limits: {min_long_context_gain: 0, max_short_context_regression: 0, max_failed_runs: 0, "
    "max_peak_memory_gb: 1, max_cost_per_supervised_token: 1}"
)
INVARIANTS = (
    "'capacity', 'sample_conservation', 'token_order', 'labels_preserved', 'position_ids', "
    "'boundary_labels', 'cumulative_boundaries', 'sequence_indices', 'varlen_fields', 'aligned_fields', "
    "'mask_agrees', 'padding_segment', 'supervision_per_row', 'orphan_fragments', 'target_count', "
    "'effective_window' or 'index_range'"
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            LENGTHS + "limits: {min_long_share: 0.5, max_long_share: 0.25}}",
            "4:75: lengths.limits.min_long_share: 0.5 is above max_long_share 0.25: no value meets both",
        ),
        (
            LENGTHS + "warn: {min_short_share: 0.5, max_short_share: 0.25}}",
            "4:74: lengths.warn.min_short_share: 0.5 is above max_short_share 0.25: no value meets both",
        ),
        (
            LENGTHS + "limits: {min_long_share: 0.5, min_short_share: 0.75}}",
            "4:97: lengths.limits.min_short_share: 0.75 and min_long_share 0.5 add up to more than 1",
        ),
        (
            LENGTHS + "limits: {max_tokens: 5}, warn: {max_tokens: 6}}",
            "4:94: lengths.warn.max_tokens: found 6, expected at most 5: "
            "the limit would fail before this can warn",
        ),
        (
            "window: {target_context_len: 8, min_kept_supervised_tokens: 9}",
            "4:61: window.min_kept_supervised_tokens: found 9, expected at most target_context_len 8: "
            "no sample could be kept",
        ),
        (
            "window: {target_context_len: 8, max_supervision_loss_ratio: 1.1}",
            "4:61: window.max_supervision_loss_ratio: found 1.1, expected at most 1",
        ),
        (
            "window: {target_context_len: 8, max_supervision_loss_ratio: .inf}",
            "4:61: window.max_supervision_loss_ratio: found inf, expected a finite number",
        ),
        (
            "window: {target_context_len: 2147483648}",
            "4:30: window.target_context_len: found 2147483648, expected at most 2147483647",
        ),
        (
            "packing: {max_tokens_per_bin: 8, limits: {min_utilization: 0.9}, warn: {min_utilization: 0.8}}",
            "4:90: packing.warn.min_utilization: found 0.8, expected at least 0.9: "
            "the limit would fail before this can warn",
        ),
        (
            "window: {target_context_len: 9}\npacking: {max_tokens_per_bin: 8}",
            "5:31: packing.max_tokens_per_bin: found 8, expected at least window.target_context_len 9: "
            "an admitted sample might fit no packed row",
        ),
        (
            "packing: {batch_size: 1}",
            "4:1: packing.max_tokens_per_bin: missing: give it here, or window.target_context_len",
        ),
        (
            "packing: {max_tokens_per_bin: 8, trainer: trl_sft, collator: padded}",
            "4:62: packing.collator: ignored by the trainer trl_sft, which packs and collates by its own "
            "config: leave it out",
        ),
        (
            "packing: {max_tokens_per_bin: 8, packer: 5}",
            "4:42: packing.packer: found 5, expected a name, or {name: …, config: {…}}",
        ),
        (
            "packing: {max_tokens_per_bin: 8, packer: {nme: ffd, name: ffd}}",
            "4:43: packing.packer.nme: unknown key, did you mean 'name'?",
        ),
        (
            "packing: {max_tokens_per_bin: 8, invariants: [capacty]}",
            f"4:47: packing.invariants.0: found text 'capacty', expected {INVARIANTS}; "
            "did you mean 'capacity'?",
        ),
        (
            "packing: {max_tokens_per_bin: 8, invariants: {except: [capacity]}}",
            "4:34: packing.invariants.reason: missing",
        ),
        (
            "packing: {max_tokens_per_bin: 8, invariants: {except: [capacity], exempt: [], reason: x}}",
            "4:67: packing.invariants.exempt: unknown key, did you mean 'except'?",
        ),
        (
            "packing: {max_tokens_per_bin: 8, invariants: al}",
            "4:46: packing.invariants: found text 'al', expected 'all' or a list or a mapping; "
            "did you mean 'all'?",
        ),
        (
            "packing: {max_tokens_per_bin: 8, limits: {max_rows_over_bound: 0.5}}",
            "4:64: packing.limits.max_rows_over_bound: found 0.5, expected at least 1",
        ),
        (
            "supervision: {turns: every_token, marker: x}",
            "4:43: supervision.marker: contradicts turns: every_token, which masks nothing",
        ),
        (
            "supervision: {marker: []}",
            "4:23: supervision.marker: found a list, expected text or at least 1 in the list",
        ),
        ("name: '  '", "4:7: name: found text '  ', expected text that is not blank"),
        (
            f"curriculum: {{baseline: {{metrics: b}}, {GATES}, stages: [{STAGE}, {STAGE}]}}",
            "4:251: curriculum.stages.1.name: found 'a' again, expected each once",
        ),
        (
            f"curriculum: {{baseline: {{metrics: b}}, {GATES}, stages: []}}",
            "4:192: curriculum.stages: found a list, expected at least 1 in the list",
        ),
        (
            f"curriculum: {{baseline: {{metrics: {{eval: e, map: {{}}}}}}, {GATES}, stages: [{STAGE}]}}",
            "4:25: curriculum.baseline.metrics.trainer_state: missing",
        ),
        (
            f"curriculum: {{baseline: {{metrics: b, name: 8 K}}, {GATES}, stages: [{STAGE}]}}",
            "4:43: curriculum.baseline.name: found text '8 K', expected a name of small "
            "letters, digits and _",
        ),
        (
            "gpu: {sequence_lengths: [128, 128]}",
            "4:31: gpu.sequence_lengths.1: found 128, expected more than 128: "
            "lengths increase strictly from 2",
        ),
        (
            "gpu: {sequence_lengths: [1]}",
            "4:26: gpu.sequence_lengths.0: found 1, expected more than 1: lengths increase strictly from 2",
        ),
        (
            "gpu: {packing_sample_lengths: [5]}",
            "4:31: gpu.packing_sample_lengths: found a list, expected at least 2 in the list",
        ),
        (
            "isolation: {attention: [sdpa, sdpa]}",
            "4:31: isolation.attention.1: found 'sdpa' again, expected each once",
        ),
        (
            "waivers: [{check: windw, until: 2027-01-31, reason: x}]",
            "4:19: waivers.0.check: found text 'windw', expected section::check, as in the node id",
        ),
        (
            "waivers: [{check: 'windw::policy', until: 2027-01-31, reason: x}]",
            "4:19: waivers.0.check: found text 'windw', expected one of tokenizer, dataset, supervision, "
            "lengths, window, packing, isolation, curriculum, gpu, custom",
        ),
        (
            "baseline: {max_regression: {window: 0.1}}",
            "4:37: baseline.max_regression.window: found text 'window', expected section::check, "
            "as in the node id",
        ),
        (
            "baseline: {max_regression: {'windw::max_tokens': 0.1}}",
            "4:50: baseline.max_regression.windw::max_tokens: found text 'windw', expected one of tokenizer, "
            "dataset, supervision, lengths, window, packing, isolation, curriculum, gpu, custom",
        ),
        (
            "baseline: {max_regression: {'window::policy': -1}}",
            "4:47: baseline.max_regression.window::policy: found -1, expected at least 0",
        ),
        (
            "baseline:",
            "4:10: baseline: found nothing (null), expected its keys, or no such section",
        ),
        (
            "waivers: [{check: 'window::policy', until: 2027-02-30, reason: x}]",
            "4:44: waivers.0.until: found text '2027-02-30', expected a date such as 2027-01-31",
        ),
        (
            "waivers: [{check: 'window::policy', until: 20270131, reason: x}]",
            "4:44: waivers.0.until: found 20270131, expected a date such as 2027-01-31",
        ),
    ],
)
def test_broken_rules(below, text, problem):
    assert below(text) == [problem]


def test_packing_needs_token_ids(problems):
    text = (
        "contract: 1\ntokenizer: {path: t}\ndataset: {path: d.jsonl, shape: lengths}\n"
        "packing: {max_tokens_per_bin: 8}"
    )
    assert problems(text) == [
        "4:10: packing: packing needs token ids, but dataset.shape is lengths: leave the section out"
    ]


def test_a_section_that_would_check_nothing_is_refused(below):
    nothing = (
        "lengths: sets no limit, so nothing is checked: set one in limits or warn, or leave the section out"
    )
    assert below(f"{LENGTHS}limits: {{}}}}\n") == [f"4:10: {nothing}"]
    assert below("window: {target_context_len: 8}\npacking: {invariants: []}\n") == [
        "5:23: packing.invariants: found a list, expected 'all' or at least 1 in the list or a mapping"
    ]
    assert below("baseline: {max_regression: {}}\n") == [
        "4:28: baseline.max_regression: found a mapping, expected at least 1 in the list"
    ]


@pytest.mark.parametrize("name", ["max_truncated_ratio", "min_kept_supervision_ratio"])
def test_a_warning_at_the_limit_itself_is_allowed(loads, name):
    window = loads(
        f"window: {{target_context_len: 8, limits: {{{name}: 0.5}}, warn: {{{name}: 0.5}}}}"
    ).window
    assert getattr(window.warn, name) == getattr(window.limits, name) == 0.5


def test_the_longest_text(loads, below):
    assert loads(f"description: {'k' * 4096}").description == "k" * 4096
    (problem,) = below(f"description: {'k' * 4097}")
    assert "at most 4096" in problem
