"""A tokenizer of which every value can be counted by hand: a character is a token and its id is its code."""

from __future__ import annotations

import re
from pathlib import Path

from tokenizers import Regex, models, pre_tokenizers, processors
from tokenizers import Tokenizer as RustTokenizer
from transformers import PreTrainedTokenizerFast

from pytest_longctx.contract import SupervisionSection
from pytest_longctx.dataset import Conversation
from pytest_longctx.tokens.build import make_sampler, measure
from pytest_longctx.tokens.tokenizer import Tokenizer

UNK, BOS, EOS, START, END = 0, 1, 2, 3, 4
SPECIAL = {"<unk>": UNK, "<s>": BOS, "</s>": EOS, "<|im_start|>": START, "<|im_end|>": END}
CHATML = (Path(__file__).parents[2] / "examples" / "chatml.jinja").read_text(encoding="utf-8")
PLAIN = (Path(__file__).parents[2] / "examples" / "chatml_plain.jinja").read_text(encoding="utf-8")


def characters(template=CHATML, *, adds="", bos="<s>", eos="</s>", words=(), **kwargs):
    """The tokenizer; `adds` is what it puts around plain text, as in `<s> $A </s>`.

    Each of `words` is one token as well, from 128 on.
    """
    vocabulary = {**SPECIAL, "\n": 10, **{chr(code): code for code in range(32, 127)}}
    vocabulary |= {word: 128 + place for place, word in enumerate(words)}
    rust = RustTokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    alternatives = "|".join([*map(re.escape, words), r"[\s\S]"])
    rust.pre_tokenizer = pre_tokenizers.Split(Regex(alternatives), "isolated")
    if adds:
        named = [(token, SPECIAL[token]) for token in ("<s>", "</s>")]
        rust.post_processor = processors.TemplateProcessing(single=adds, special_tokens=named)
    backend = PreTrainedTokenizerFast(
        tokenizer_object=rust,
        unk_token="<unk>",
        bos_token=bos,
        eos_token=eos,
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
    )
    return Tokenizer(backend, template, "test.jinja", kwargs, "sha256:0")


def chat(*texts, name="row", tools=None, **keys):
    """A conversation of user, assistant, user, …; a mapping stands for a whole message."""
    roles = ("user", "assistant")
    messages = [
        text if isinstance(text, dict) else {"role": roles[place % 2], "content": text}
        for place, text in enumerate(texts)
    ]
    return Conversation(name, "rows.jsonl", 1, messages=messages, tools=tools, **keys)


def sample_of(conversation, tokenizer=None, **terms):
    """The sample of one conversation."""
    return make_sampler(tokenizer or characters(), SupervisionSection(**terms)).sample(conversation)


def findings_of(conversation, tokenizer=None, shape="messages", **terms):
    """Offences of one conversation, check by check."""
    rows = conversation if isinstance(conversation, list) else [conversation]
    measured = measure(rows, shape, tokenizer or characters(), SupervisionSection(**terms))
    return {check for check, count in measured.findings.counts.items() if count}


def witness_of(check, conversation, tokenizer=None, shape="messages", **terms):
    """The first witness of a check."""
    measured = measure([conversation], shape, tokenizer or characters(), SupervisionSection(**terms))
    return measured.findings.witnesses[check][0]


def codes(text):
    """The ids of a text without special tokens."""
    return [ord(character) for character in text]
