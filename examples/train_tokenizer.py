"""Trains the example tokenizer on the example chats; every run writes the same bytes.

    python examples/train_tokenizer.py [FOLDER]

A byte-level BPE with 4,096 entries, `<|endoftext|>` (padding), `<|im_start|>` and `<|im_end|>` (end of
sequence) among them. Needs `tokenizers` only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parent
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Words with the space before them, numbers in groups of at most three digits, punctuation, runs of space.
WORDS = (
    r"'(?:s|t|re|ve|m|ll|d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_max_length": 32768,
    "pad_token": "<|endoftext|>",
    "eos_token": "<|im_end|>",
    "additional_special_tokens": ["<|im_start|>"],
    "clean_up_tokenization_spaces": False,
}


def texts(data: Path) -> Iterator[str]:
    """Yield what a chat template writes: roles, contents, tool calls and tools of every chat."""
    for file in sorted(data.glob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                yield from (json.dumps(tool, ensure_ascii=False) for tool in row.get("tools", []))
                for message in row["messages"]:
                    yield f"{message['role']}\n{_text(message['content'])}\n"
                    yield from (json.dumps(call["function"]) for call in message.get("tool_calls", []))


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def train(data: Path) -> Tokenizer:
    """Return a tokenizer trained on the chats in the folder `data`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4096,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(data), trainer)
    return tokenizer


def main() -> None:
    """Write `tokenizer.json` and `tokenizer_config.json` into the folder given, by default `tokenizer`."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLES / "tokenizer"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train(EXAMPLES / "data")
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = json.dumps(CONFIG, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8", newline="\n")
    print(f"{tokenizer.get_vocab_size()} entries in {folder}")


if __name__ == "__main__":
    main()
