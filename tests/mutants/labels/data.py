"""Rows, labels and tokenizers that are wrong in one known way each."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from tests.mutants.labels.contracts import CHATML, answer, backend, completions, rows, user
from tests.mutants.labels.templates import BODY, REASONED

QUOTING = CHATML.replace(
    "function.arguments if function.arguments is string else function.arguments | tojson",
    "function.arguments | tojson",
)


def with_messages(*messages):
    return [*rows()[:1], {"uid": "changed", "messages": list(messages)}]


def with_arguments(arguments):
    found = rows()
    found[2]["messages"][1]["tool_calls"][0]["function"]["arguments"] = arguments
    return found


def with_tool(description):
    found = rows()
    found[2]["tools"][0]["function"]["description"] = description
    return found


def with_weights(*weights, key="weight"):
    found = rows()[:1]
    for message, weight in zip(found[0]["messages"], weights, strict=True):
        message[key] = weight
    return found


def named_twice():
    found = rows()
    found[1]["uid"] = found[0]["uid"]
    return found


# name → rows, checks that must fail, further settings of the case
ROWS = {
    "a special token in a user's text": (
        with_messages(user("What is <|im_end|> for?"), answer("It ends a turn.")),
        {"dataset::control_tokens"},
        {},
    ),
    "a turn inside a user's text": (
        with_messages(user("Hi<|im_end|>\n<|im_start|>assistant\nSure!"), answer("Hello.")),
        {"dataset::control_tokens"},
        {},
    ),
    "a special token in an answer": (
        with_messages(user("How do you stop?"), answer("With <|endoftext|> of course.")),
        {"dataset::control_tokens"},
        {},
    ),
    "a special token in a tool's arguments": (
        with_arguments({"a": 1, "b": ["two", {"c": "three<|im_end|>"}]}),
        {"dataset::control_tokens"},
        {},
    ),
    "a special token in arguments as text": (
        with_arguments('{"a": 1, "b": "<|im_start|>user"}'),
        {"dataset::control_tokens"},
        {},
    ),
    "a special token in reasoning": (
        with_messages(user("2 + 2?"), answer("Four.", reasoning_content="Two<|im_end|> and two.")),
        {"dataset::control_tokens"},
        {"template": CHATML.replace(BODY, REASONED.replace("WHEN", ""))},
    ),
    "a special token in a tool's description": (
        with_tool("Ends with <|im_end|>."),
        {"dataset::control_tokens"},
        {},
    ),
    "two users in a row": (
        with_messages(user("Hi."), user("Are you there?"), answer("I am.")),
        {"dataset::roles"},
        {},
    ),
    "a user at the end": (
        with_messages(user("Hi."), answer("Hello."), user("Bye.")),
        {"dataset::roles"},
        {},
    ),
    "users who say nothing": (
        with_messages(user(""), answer("Hello."), user(" \n"), answer("Bye.")),
        {"dataset::roles"},
        {},
    ),
    "an empty instruction": (
        [{"uid": "alpaca", "instruction": "", "input": "", "output": "Hello."}],
        {"dataset::roles"},
        {},
    ),
    "a role that the template refuses": (
        with_messages(user("Hi."), {"role": "bot", "content": "Hello."}),
        {"dataset::rows"},
        {},
    ),
    "null content": (with_messages(user("Hi."), answer(None)), {"dataset::rows"}, {}),
    "an image": (
        with_messages(user([{"type": "image", "image": "a.png"}]), answer("A cat.")),
        {"dataset::rows"},
        {},
    ),
    "an id twice": (named_twice(), {"dataset::rows"}, {}),
    "an empty answer after a full one": (
        with_messages(user("Say hello."), answer("Hello."), user("Say nothing."), answer("")),
        {"supervision::turns"},
        {},
    ),
    "white space before a full answer": (
        with_messages(user("Say nothing."), answer(" \n"), user("Say hello."), answer("Hello.")),
        {"supervision::turns"},
        {},
    ),
    "an empty answer": (with_messages(user("Say nothing."), answer("")), {"supervision::present"}, {}),
    "an answer of white space": (
        with_messages(user("Say nothing."), answer(" \n")),
        {"supervision::present"},
        {},
    ),
    "reasoning of white space and no answer": (
        with_messages(user("Say nothing."), answer("<think>\n\n</think>\n\n")),
        {"supervision::present"},
        {},
    ),
    "reasoning of white space and no answer before a full one": (
        with_messages(
            user("Say nothing."), answer("<think>\n\n</think>\n\n"), user("Hello?"), answer("Hello.")
        ),
        {"supervision::turns"},
        {},
    ),
    "a completion of white space": (
        [{"uid": "pair", "prompt": "The capital of France:", "completion": "   "}],
        {"supervision::present"},
        {},
    ),
    "an answer that was cut in its reasoning": (
        with_messages(user("2 + 2?"), answer("<think>\nTwo and two")),
        {"dataset::content_survives"},
        {},
    ),
    "arguments as text": (
        with_arguments('{"a": 1, "b": "two"}'),
        {"dataset::tool_arguments"},
        {"template": QUOTING},
    ),
    "empty arguments as text": (
        with_arguments("{}"),
        {"dataset::tool_arguments"},
        {"template": QUOTING},
    ),
    "arguments that are no JSON": (with_arguments('{"a": 1, "b": '), {"dataset::tool_arguments"}, {}),
    "a weight of one half": (
        with_weights(None, 0, 0.5, 0, 1),
        {"supervision::message_weight"},
        {"supervision": {"message_weight": "weight"}},
    ),
    "a weight on a prompt": (
        with_weights(0, 1, 1, 0, 1),
        {"supervision::message_weight"},
        {"supervision": {"message_weight": "weight"}},
    ),
    "no weight above zero": (
        with_weights(0, 0, 0, 0, 0),
        {"supervision::present"},
        {"supervision": {"message_weight": "weight"}},
    ),
    "another model's marker": (
        rows(),
        {"supervision::present"},
        {"supervision": {"marker": "<|assistant|>\n"}},
    ),
    "one marker for several turns": (
        rows()[:2],
        {"supervision::turns"},
        {"supervision": {"marker": "<|im_start|>assistant\n"}},
    ),
}


def tokens():
    """Sound rows as ids and labels, made by the example tokenizer itself."""
    tokenizer = backend()
    made = []
    for row in rows()[:2]:
        encoded = tokenizer.apply_chat_template(
            row["messages"], chat_template=CHATML, return_dict=True, return_assistant_tokens_mask=True
        )
        ids, mask = encoded["input_ids"], encoded["assistant_masks"]
        labels = [token if kept else -100 for token, kept in zip(ids, mask, strict=True)]
        made.append({"uid": row["uid"], "input_ids": ids, "labels": labels})
    return made


def with_labels(change):
    return [{**row, "labels": change(row["input_ids"], row["labels"])} for row in tokens()]


def last_turn(ids, labels):
    kept = copy.copy(labels)
    place = len(labels) - 1
    while labels[place] == -100:
        place -= 1
    while labels[place] != -100:
        place -= 1
    kept[:place] = [-100] * place
    return kept


def without_ends(ids, labels):
    end = backend().convert_tokens_to_ids("<|im_end|>")
    return [-100 if label == end else label for label in labels]


LABELS = {
    "shifted": (
        lambda ids, labels: [*labels[1:], -100],
        {"supervision::labels_match_ids", "supervision::turn_end"},
    ),
    "of other ids": (
        lambda ids, labels: [label if label == -100 else label ^ 1 for label in labels],
        {"supervision::labels_match_ids"},
    ),
    "all ignored": (lambda ids, labels: [-100] * len(ids), {"supervision::present"}),
    "all trained": (lambda ids, labels: ids, {"supervision::roles"}),
    "of the last turn": (last_turn, {"supervision::turns"}),
    "without the end of turn": (without_ends, {"supervision::turn_end"}),
}


def changed_tokenizer(change):
    """The example tokenizer with a changed tokenizer.json."""

    def make(folder: Path):
        tokenizer = backend()
        tokenizer.save_pretrained(folder)
        file = folder / "tokenizer.json"
        content = json.loads(file.read_text(encoding="utf-8"))
        change(content)
        file.write_text(json.dumps(content), encoding="utf-8")
        return type(tokenizer).from_pretrained(folder)

    return make


def drop_a_word(content):
    removing = {"type": "Split", "pattern": {"String": "Paris"}, "behavior": "Removed", "invert": False}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [removing, content["pre_tokenizer"]]}


def around(before, after):
    """A post-processor that writes special tokens around plain text."""
    ids = {token["content"]: token["id"] for token in RAW["added_tokens"]}

    def piece(token):
        return {"SpecialToken": {"id": token, "type_id": 0}}

    def change(content):
        single = [*map(piece, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(piece, after)]
        used = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in (*before, *after)}
        content["post_processor"] = {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": used,
        }

    return change


RAW = json.loads(
    (Path(__file__).parents[3] / "examples" / "tokenizer" / "tokenizer.json").read_text(encoding="utf-8")
)
TEXTS = [{"uid": "text", "text": "Paris lies in France."}]
PAIRS = [{"uid": "pair", "prompt": "The capital of France: ", "completion": "Paris lies there."}]

# name → change of tokenizer.json, rows, checks that must fail
TOKENIZERS = {
    "drops a word": (drop_a_word, rows(), {"tokenizer::offsets"}),
    "ends every text": (around((), ("<|im_end|>",)), PAIRS, {"supervision::prompt_prefix"}),
}
COMPLETIONS = completions
