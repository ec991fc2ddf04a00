"""The checks of what is run on models, in words: sections isolation, curriculum and gpu."""

from __future__ import annotations

from pytest_longctx.checks.entry import Entry

_ISOLATE = (
    "Pass `position_ids` without an all-ones mask and with `use_cache=False`; where your training step does, "
    "say `isolation.forward: {use_cache: false}` in the contract. Else take another collator or attention: "
    "`docs/isolation.md` has a table of what isolates."
)

RUNS: dict[str, Entry] = {
    "isolation::logits": Entry(
        "That a sample's logits do not move when every token of the other samples in its row is changed.",
        "If they do, each sample is answered in the light of strangers.",
        _ISOLATE,
    ),
    "isolation::gradients": Entry(
        "That a sample's logits have no gradient at other samples' embeddings, nor at later tokens' ones.",
        "What has a gradient is learnt from.",
        _ISOLATE,
    ),
    "isolation::standalone": Entry(
        "That a packed sample has the logits that it has alone.",
        "Isolated may still be wrong: a dense mask over a sliding window loses the window.",
        "Use a form of batch without a dense mask; restart learned positions with every segment.",
    ),
    "isolation::loss": Entry(
        "That the packed loss is the token-weighted mean of the samples' own losses.",
        "Another loss is another training run, and no curve shows which.",
        "Look at labels at segment starts, and at how the trainer divides the sum.",
    ),
    "isolation::call_matrix": Entry(
        "Which calls of the model leak, mask none or ones, cache off or on; the contract's own must not.",
        "The same batch isolates or leaks by an argument that nobody looks at.",
        _ISOLATE,
    ),
    "isolation::dispatch": Entry(
        "That transformers calls the varlen kernel with the segments' borders, seen on a CPU.",
        "Otherwise flash attention looks over the whole row, at full speed and without a word.",
        "Pass all four varlen fields, or `position_ids` without a mask.",
    ),
    "curriculum::token_budget_mismatch": Entry(
        "That both stages train on equally many supervised tokens per optimizer step.",
        "With other budgets the scores compare budgets, not windows.",
        "Set batch and accumulation so that the budgets match.",
    ),
    "curriculum::insufficient_long_context_gain": Entry(
        "That the long-context score rose by at least `min_long_context_gain`.",
        "A longer window costs more per step; it has to buy something.",
        "Hold the stage, and look at the share of long samples.",
    ),
    "curriculum::short_context_regression": Entry(
        "That the short-context score fell by at most `max_short_context_regression`.",
        "Long-context training forgets short tasks first.",
        "Mix more short samples into the stage.",
    ),
    "curriculum::nonfinite_loss": Entry(
        "That no loss of the run was NaN or infinite, in training or evaluation. With "
        "`logging_nan_inf_filter`, the default of transformers' trainer, such a loss of training is not in "
        "`trainer_state.json`, and cannot make this fail.",
        "Scores of such a run mean nothing.",
        "Find the batch; lower the learning rate, or train in another precision.",
    ),
    "curriculum::nonfinite_gradients": Entry(
        "That no gradient norm of the run was NaN or infinite.",
        "One such step can undo the ones before it.",
        "Clip gradients; look for rows without targets.",
    ),
    "curriculum::failed_runs": Entry(
        "That at most `max_failed_runs` runs of the stage failed.",
        "A stage that only sometimes runs through will stop where it is dearest.",
        "Mend what made the runs fail.",
    ),
    "curriculum::peak_memory_budget": Entry(
        "That peak memory stayed within `max_peak_memory_gb`.",
        "The next stage is longer, and needs more.",
        "Shorten the rows, or use gradient checkpointing.",
    ),
    "curriculum::cost_budget": Entry(
        "That a supervised token cost at most `max_cost_per_supervised_token`.",
        "Cost grows faster than the window.",
        "Pack better, or raise the budget on purpose.",
    ),
    "curriculum::stage_order": Entry(
        "That each stage has a larger window than the one before it, the first than the baseline's if that "
        "is in the contract or in its metrics.",
        "A curriculum that steps back is a mistake in the file.",
        "Put the stages in order.",
    ),
    "curriculum::measured_token_budget": Entry(
        "That the packed rows give as many supervised tokens per optimizer step as the metrics claim. At the "
        "contract's own window these are the rows that were delivered. At another window they are those of "
        "the samples that it admits: one a row where the contract does not pack, else as first-fit "
        "decreasing would pack them, whatever the packer. A step may hold more rows than the data has, and "
        "repeats them.",
        "Metrics of other data, batch or packing decide about a run that was never made.",
        "Measure again with the contract's data, packing and batch.",
    ),
    "curriculum::length_mix": Entry(
        "That the stage's window admits samples, and that the share of long ones among them does not fall "
        "from stage to stage.",
        "A longer window over shorter samples trains no long context.",
        "Admit more long samples at the longer window.",
    ),
    "gpu::length_curve": Entry(
        "That every length of the workload was measured: step time, throughput, peak memory.",
        "A curve with a hole hides the length at which it breaks.",
        "Read the message of the step that failed; shorten the lengths or free the GPU.",
    ),
    "gpu::finite": Entry(
        "That every loss and gradient norm of the counted steps is finite.",
        "Timings of steps that train NaN are timings of something else.",
        "Try another precision; see that labels have targets.",
    ),
    "gpu::memory_trend": Entry(
        "That peak memory does not fall from one length to the next, beyond the tolerance.",
        "Falling memory says that a length was cut or another path was taken.",
        "Look for a cut in the collator, and for an attention that changes with length.",
    ),
    "gpu::packing_boundaries": Entry(
        "That the packed arm keeps samples apart: every invariant of packing, on the tensors that were fed.",
        "A fast step over samples that see each other is fast at the wrong thing.",
        "Mend the batch that the message names.",
    ),
    "gpu::same_supervision": Entry(
        "That the packed and the padded arm train the same tokens, to the same loss.",
        "Otherwise the speedup compares two workloads.",
        "Look at labels at segment starts and in padding.",
    ),
}
