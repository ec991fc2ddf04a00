"""What each check looks at, why it matters and how to mend it: the source of `docs/checks.md`."""

from __future__ import annotations

from pytest_longctx.checks.catalog_limits import LIMITS
from pytest_longctx.checks.catalog_runs import RUNS
from pytest_longctx.checks.entry import Entry
from pytest_longctx.contract import SECTIONS

_DATA: dict[str, Entry] = {
    "tokenizer::pinned": Entry(
        "That tokenizer files, template and template kwargs have the fingerprint that the contract names. "
        "Files of a vocabulary beside `tokenizer.json` count, and of `config.json` the model type and the "
        "tokenizer's class.",
        "A template that changes under the data changes every label, silently.",
        "If the change is on purpose, put the fingerprint that the message shows into the contract.",
    ),
    "tokenizer::deterministic_template": Entry(
        "That the template gives the same tokens under two clocks.",
        "A template that writes today's date makes every run train another prompt.",
        "Pass the date in `template_kwargs`, or use a template that does not ask for it.",
    ),
    "tokenizer::single_bos": Entry(
        "That begin-of-sequence stands at most once, at the start. Where the template writes it in every "
        "turn: never twice in a row, and in no message's text.",
        "Rendering writes it and tokenizing adds it again: the model sees a start it never saw before.",
        "Let either the template or the tokenizer write it.",
    ),
    "tokenizer::offsets": Entry(
        "That the tokens' character spans cover the rendered text and never run backwards.",
        "Labels are aligned by these spans; a wrong one supervises the wrong tokens.",
        "Use the model's own `tokenizer.json`.",
    ),
    "tokenizer::prefix_render": Entry(
        "That the rendering of a whole conversation starts with that of each shorter one.",
        "Where it does not, what the model reads at inference is not what it was trained on.",
        "Use a training template that keeps earlier turns as they are.",
    ),
    "dataset::rows": Entry(
        "That there are rows, and that each can be read, converted and rendered.",
        "A loader that skips what it cannot read trains on less than you think.",
        "Mend or remove the rows that the message names.",
    ),
    "dataset::slices": Entry(
        "That the slice column has at most fifty values, and a value in every row.",
        "A limit per slice over thousands of values says nothing.",
        "Choose a column with few values, such as the source.",
    ),
    "dataset::roles": Entry(
        "That user and assistant take turns, the system message is first, the assistant has the last word, "
        "and a user says something.",
        "Two user turns in a row, a last turn of the user, or answers to nothing render, train, and teach "
        "nothing useful.",
        "Merge or drop the turns that the message names; where no user has text, look for a prompt column "
        "that was lost.",
    ),
    "dataset::tool_arguments": Entry(
        "That tool arguments do not become an escaped string in the target.",
        "The model learns to write a string with escaped quotes where the tool wants an object.",
        "Give `arguments` as a mapping.",
    ),
    "dataset::content_survives": Entry(
        "The share of each assistant text that the template renders, that it drops no other message and no "
        "tool whole, that it writes no parts as source, and that an answer which opens with `<think>` has "
        "`</think>`.",
        "Templates drop what they do not know: lists of parts, other roles, tools, reasoning of earlier "
        "turns. Others write a list of parts as Python or JSON: the model learns to answer "
        "`[{'type': 'text', …`. An answer that was cut in its reasoning teaches to reason and never answer.",
        "Flatten lists of parts to text, use the roles that the template knows, or another template: one "
        "that shows tools where rows have them. Drop answers that stop in their reasoning.",
    ),
    "dataset::control_tokens": Entry(
        "That no special token stands inside a text: content, reasoning, tool calls, definitions of tools.",
        "It ends the turn or starts another one, inside what you believe to be text.",
        "Remove or break up the strings that the message names.",
    ),
    "dataset::arrow_round_trip": Entry(
        "That a row gives the same tokens after the trainer's loader read it.",
        "Arrow fills missing keys with null and turns mixed columns into JSON text.",
        "Load with `features` that have `Json()` columns, or make the rows uniform.",
    ),
    "supervision::present": Entry(
        "That every sample has an answer token to learn: a supervised token of the message text.",
        "The loss still falls, on scaffolding alone.",
        "Drop empty answers; use a template with generation blocks; check the response marker.",
    ),
    "supervision::roles": Entry(
        "That no token of a system, user or tool text is supervised, and not everything is.",
        "The model learns to write the user's part.",
        "Put only the assistant's text inside the generation block.",
    ),
    "supervision::turns": Entry(
        "That the assistant turns which the policy wants are supervised, and no other.",
        "Training only the last turn, or all of them, are two different models.",
        "Compare `supervision.turns` with what the template marks.",
    ),
    "supervision::turn_end": Entry(
        "That the terminator which the template renders ends every supervised turn, and is a token of the "
        "tokenizer; a tokenized row that stops in its answer has none.",
        "A model that never trained its end of turn never stops; nor does one that learned to spell it.",
        "Move the terminator inside the generation block; add its token, or take the template of the "
        "tokenizer's own model; do not cut tokenized rows, or set `turns: every_token` where they are no "
        "chats.",
    ),
    "supervision::labels_match_ids": Entry(
        "That each label is the id at its place, or -100.",
        "Models shift labels themselves; labels shifted twice teach the token after the next.",
        "Do not shift labels when you prepare rows.",
    ),
    "supervision::prompt_prefix": Entry(
        "That the prompt's tokens are a prefix of those of prompt and completion.",
        "A token merged across the border is neither prompt nor completion.",
        "End the prompt on a token boundary, such as a newline.",
    ),
    "supervision::message_weight": Entry(
        "Whether rows carry weights of messages that nobody reads.",
        "TRL and transformers ignore `weight: 0` and train the answer.",
        "Name the key in `supervision.message_weight` and mask it in your trainer, or drop the turns.",
    ),
    "window::policy": Entry(
        "That every sample is fit, truncate or overflow, and that no cut reaches prompt or template.",
        "A prompt that is cut trains an answer to another question.",
        "A failure with samples admitted is a bug of the plan; with none admitted, widen the window.",
    ),
    "packing::capacity": Entry(
        "That no packed row holds more tokens than `max_tokens_per_bin`.",
        "The trainer cuts what is beyond, or the GPU runs out of memory.",
        "Mend the packer.",
    ),
    "packing::sample_conservation": Entry(
        "That every admitted sample is delivered exactly once, token for token, cut only as planned.",
        "Lost, repeated and cut samples change what is learnt, and totals do not show it.",
        "Compare what the packer was given with what it gave; reject long samples before packing.",
    ),
    "packing::token_order": Entry(
        "That a sample's tokens come in their order.",
        "Reordered tokens are another text.",
        "Mend the packer.",
    ),
    "packing::labels_preserved": Entry(
        "That labels travel with their tokens, unshifted.",
        "Labels of a neighbour or one place off teach noise.",
        "Mend packer or collator; starts of segments may be -100. SFTTrainer trains every token of a chat "
        "unless its config has `assistant_only_loss: true`, and of rows with a `completion_mask` unless it "
        "has `completion_only_loss: true`.",
    ),
    "packing::position_ids": Entry(
        "That positions restart at 0 with every segment.",
        "Positions that run through the row tell the model that samples follow each other.",
        "Return position_ids that restart; keep `seq_lengths` through the data loader.",
    ),
    "packing::boundary_labels": Entry(
        "That the first token of a segment is no target.",
        "It would be predicted from the end of the sample before it.",
        "Set the label at each start to -100.",
    ),
    "packing::cumulative_boundaries": Entry(
        "That `cu_seq_lens` holds the borders of all segments, from 0 to the last token.",
        "Flash attention sees samples exactly as these borders say.",
        "Build it from the segment lengths, starting with 0.",
    ),
    "packing::sequence_indices": Entry(
        "That `seq_idx` numbers the segments of a row.",
        "Convolution and state-space layers carry state across samples without it.",
        "Number the segments 0, 1, 2, … per row.",
    ),
    "packing::varlen_fields": Entry(
        "That all four varlen arguments are there or none, of the types the kernel wants.",
        "With one missing, transformers falls back to attention over the whole row.",
        "Pass `cu_seq_lens_q/k` in int32 and `max_length_q/k` as plain ints.",
    ),
    "packing::aligned_fields": Entry(
        "That every tensor with one entry a token has as many as `input_ids`.",
        "A tensor that was not padded shifts against the others, or crashes a step in.",
        "Pad all of them alike.",
    ),
    "packing::mask_agrees": Entry(
        "That all dialects of a batch name the same segments, and a dense mask shows exactly them.",
        "Kernels read different fields: samples see each other under one and not under another.",
        "Build every field from the same segment lengths.",
    ),
    "packing::padding_segment": Entry(
        "That padding carries no label and belongs to no sample's segment.",
        "Trained padding teaches the model to write padding.",
        "Label padding -100 and leave it out of the borders.",
    ),
    "packing::supervision_per_row": Entry(
        "That every row has a target that enters the loss.",
        "A step on such a row costs the same and trains nothing.",
        "Reject samples whose answer lies beyond the window.",
    ),
    "packing::orphan_fragments": Entry(
        "That no part of an answer is trained without its prompt.",
        "The model learns to continue from nowhere.",
        "Do not split samples; truncate or reject them by the window policy.",
    ),
    "packing::target_count": Entry(
        "That as many labels enter the loss as the delivered samples have.",
        "A wrong count scales the loss and shows labels that were lost or added.",
        "Look for masks applied twice, and for splits inside an answer; with SFTTrainer, for a config "
        "without `assistant_only_loss: true`, or for prompts and completions `completion_only_loss: true`.",
    ),
    "packing::effective_window": Entry(
        "That the trainer's own limit is the contract's, or that without one no row is longer.",
        "TRL's default is 1,024 tokens, whatever your data is.",
        "Set `max_length`.",
    ),
    "packing::index_range": Entry(
        "That ids lie in the vocabulary and no 32-bit kernel offset wraps.",
        "A wrapped offset reads other memory, without an error.",
        "Shorten the row.",
    ),
}

_ALL = {**_DATA, **LIMITS, **RUNS}
CATALOG: dict[str, Entry] = {
    name: entry for section in SECTIONS for name, entry in _ALL.items() if name.startswith(f"{section}::")
}
