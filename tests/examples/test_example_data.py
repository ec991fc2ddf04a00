from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    files = sorted((EXAMPLES / "data").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(EXAMPLES / "tokenizer")


def template(name: str) -> str:
    return (EXAMPLES / f"{name}.jinja").read_text(encoding="utf-8")


def test_rows_are_many_varied_and_named_once(rows) -> None:
    assert len(rows) >= 1200
    assert len({row["uid"] for row in rows}) == len(rows)
    assert len({json.dumps(row["messages"]) for row in rows}) > 0.95 * len(rows)
    assert {row["source"] for row in rows} == {
        "support",
        "coding",
        "tools",
        "documents",
        "everyday",
        "parts",
    }


def test_roles_follow_the_grammar(rows) -> None:
    followers = {
        None: {"system", "user"},
        "system": {"user"},
        "user": {"assistant"},
        "assistant": {"user", "tool"},
        "tool": {"tool", "assistant"},
    }
    for row in rows:
        roles = [message["role"] for message in row["messages"]]
        assert all(role in followers[before] for before, role in zip([None, *roles], roles, strict=False))
        assert roles[-1] == "assistant"


def test_template_supervises_answer_and_end_of_turn(tokenizer) -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": " two"}]},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "3"},
        {"role": "assistant", "content": "Three."},
    ]
    rendered = tokenizer.apply_chat_template(
        messages,
        tools=[{"type": "function", "function": {"name": "add"}}],
        chat_template=template("chatml"),
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    ids, mask = rendered["input_ids"], rendered["assistant_masks"]
    assert tokenizer.decode(ids) == (
        "<|im_start|>system\nBe kind.\n\n# Tools\n\n"
        "Call a function by writing its name and arguments as JSON between <tool_call> tags.\n\n"
        '{"type": "function", "function": {"name": "add"}}<|im_end|>\n'
        "<|im_start|>user\nOne two<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>\n'
        "<|im_start|>tool\n3<|im_end|>\n"
        "<|im_start|>assistant\nThree.<|im_end|>\n"
    )
    supervised = tokenizer.decode([token for token, one in zip(ids, mask, strict=True) if one])
    assert supervised == (
        '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>Three.<|im_end|>'
    )


def test_plain_template_differs_only_in_its_generation_blocks() -> None:
    marked = template("chatml").splitlines()[1:]
    unmarked = [
        line for line in marked if line.strip() not in ("{%- generation -%}", "{%- endgeneration -%}")
    ]
    assert template("chatml_plain").splitlines()[1:] == unmarked
    assert len(marked) - len(unmarked) == 2


def test_generation_prompt_opens_an_assistant_turn(tokenizer) -> None:
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}],
        chat_template=template("chatml"),
        add_generation_prompt=True,
        tokenize=False,
    )
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_tokenizer_has_its_special_tokens(tokenizer) -> None:
    assert len(tokenizer) == 4096
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == ("<|endoftext|>", 0)
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", 2)
    assert tokenizer.convert_tokens_to_ids("<|im_start|>") == 1
    text = "hello 👩‍💻 né"
    assert tokenizer(text, return_offsets_mapping=True)["offset_mapping"][-1][1] == len(text)


@pytest.mark.parametrize("file", sorted((ROOT / "contracts" / "broken").glob("*.yaml")), ids=lambda f: f.stem)
def test_broken_contracts_say_what_they_show(file) -> None:
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(("# Exit status 1: ", "# Exit status 4: "))
