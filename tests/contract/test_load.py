from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_longctx.contract import load_contract
from pytest_longctx.contract.load import MAX_BYTES
from pytest_longctx.errors import ContractError

SOUND = """\
contract: 1
name: sft-4k
tokenizer: {path: ../tok}
dataset: {path: "data/*.jsonl"}
window:
  target_context_len: 4096
  limits:
    max_overflow_ratio: 1e-2
"""


def test_a_sound_contract(load, tmp_path):
    contract = load(SOUND)
    assert contract.path == tmp_path / "c.yaml"
    assert contract.display == "c.yaml"
    assert contract.sha256 == hashlib.sha256(SOUND.encode()).hexdigest()
    assert contract.window.limits.max_overflow_ratio == 0.01
    assert contract.window.min_kept_supervised_tokens == 1
    assert contract.lengths is None
    assert contract.supervision.turns == "all"
    assert contract.waivers == []


def test_lines_of_keys(load):
    contract = load(SOUND)
    assert contract.line("window", "limits", "max_overflow_ratio") == 8
    assert contract.line("window", "limits", "max_truncated_ratio") == 7
    assert contract.line("window", "warn", "max_overflow_ratio") == 5
    assert contract.line("lengths") == 1
    assert contract.line() == 1


def test_paths_are_relative_to_the_contract(tmp_path, monkeypatch):
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts/a.yaml").write_text(SOUND)
    (tmp_path / "link.yaml").symlink_to("contracts/a.yaml")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    contract = load_contract("contracts/a.yaml")
    assert contract.resolve(contract.tokenizer.path) == tmp_path / "tok"
    assert contract.resolve("/abs") == Path("/abs")
    assert load_contract(tmp_path / "contracts" / "a.yaml").display == "contracts/a.yaml"
    assert load_contract("link.yaml").path == tmp_path / "link.yaml"
    assert load_contract("link.yaml").resolve("x") == tmp_path / "x"
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_contract("../contracts/a.yaml").display == "../contracts/a.yaml"


def only(path):
    with pytest.raises(ContractError) as caught:
        load_contract(path)
    (problem,) = caught.value.problems
    return str(problem)


def test_a_missing_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert only("no.yaml") == "no.yaml:1:1: there is no such file"


def test_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert only("folder") == "folder:1:1: found a folder, expected a contract file"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_devices_are_not_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert only("pipe") == "pipe:1:1: found a device, pipe or socket, expected a regular file"
    assert only("/dev/zero") == "/dev/zero:1:1: found a device, pipe or socket, expected a regular file"


def test_a_path_that_cannot_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    assert only("loop") == "loop:1:1: the file cannot be read: Too many levels of symbolic links"
    assert only("a" * 300).endswith(":1:1: the file cannot be read: File name too long")
    assert "the file cannot be read: " in only("nul\0")


EMPTY = "1:1: the file is empty, expected a contract that starts with contract: 1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", EMPTY),
        ("\n\n", EMPTY),
        ("# a comment\n", EMPTY),
        ("---\n", EMPTY),
        (b"contract: 1\nname: \xff", "2:7: the file is not UTF-8: byte 0xff"),
        ("contract: 1".encode("utf-16"), "1:1: the file is not UTF-8: byte 0xff"),
        (
            b"\xef\xbb\xbfcontract: 1",
            "1:1: the file starts with a byte order mark: save it as UTF-8 without one",
        ),
        (b"#" * (MAX_BYTES + 1), "1:1: the file is larger than 1 MiB, which no contract is"),
        ("text", "1:1: found text 'text', expected a mapping that starts with contract: 1"),
        ("- 1", "1:1: found a list, expected a mapping that starts with contract: 1"),
        (
            "contract: 2\nnew_key: 1",
            "1:11: contract: found 2, expected 1: this release knows no other version",
        ),
        ("contract: '1'", "1:11: contract: found text '1', expected 1: this release knows no other version"),
        ("contract: true", "1:11: contract: found true, expected 1: this release knows no other version"),
        ("contract: 1.0", "1:11: contract: found 1.0, expected 1: this release knows no other version"),
    ],
)
def test_files_that_are_no_contract(problems, content, message):
    assert problems(content) == [message]


def test_the_version_comes_first(problems):
    assert problems("tokenizer: {path: t}\ncontract: 1\ndataset: {path: d}") == [
        "2:11: contract: must be the first key of the file"
    ]
    assert problems("tokenizer: {path: t}\ndataset: {path: d}\n") == [
        "1:1: contract: missing: a contract starts with contract: 1"
    ]


def test_all_problems_are_listed_by_line(problems):
    text = """\
contract: 1
name: 5
dataset: {path: a.jsonl, shape: mesages}
windw: {}
window:
  target_context_len: 0
  limits: {max_overflow_ratio: "0.1", max_truncated_ratio: 2}
packing: {batch_size: true}
lengths:
  short_threshold: 9
  long_threshold: 3
"""
    assert problems(text) == [
        "1:1: tokenizer: missing",
        "2:7: name: found 5, expected text",
        "3:33: dataset.shape: found text 'mesages', expected 'auto', 'messages', 'sharegpt', 'alpaca', "
        "'prompt_completion', 'text', 'tokenized' or 'lengths'; did you mean 'messages'?",
        "4:1: windw: unknown key, did you mean 'window'?",
        "6:23: window.target_context_len: found 0, expected at least 1",
        "7:32: window.limits.max_overflow_ratio: found text '0.1', expected a number",
        "7:60: window.limits.max_truncated_ratio: found 2, expected at most 1",
        "8:23: packing.batch_size: found true, expected a whole number",
        "10:20: lengths.short_threshold: found 9, expected at most long_threshold 3",
    ]


def test_rules_between_sections_hold_although_another_section_is_broken(below):
    assert below("packing: {}\nlengths: {}") == [
        "4:1: packing.max_tokens_per_bin: missing: give it here, or window.target_context_len",
        "5:1: lengths.short_threshold: missing",
        "5:1: lengths.long_threshold: missing",
    ]


def test_an_unknown_key_without_a_neighbour_lists_the_known(below):
    assert below("window: {target_context_len: 8, qqq: 1}") == [
        "4:33: window.qqq: unknown key, known: limits, max_supervision_loss_ratio, "
        "min_kept_supervised_tokens, target_context_len, warn"
    ]


def test_refused_text_does_not_fail_twice(below):
    assert below("window: {target_context_len: 99999999999999999999}") == [
        "4:30: window.target_context_len: the number 99999999999999999999 is out of range (64 bits)"
    ]


def test_found_values_are_short_and_printable(below):
    assert below('window: {target_context_len: "\\e[31m"}') == [
        "4:30: window.target_context_len: found text '\\x1b[31m', expected a whole number"
    ]
    assert below(f'window: {{target_context_len: "{"x" * 5000}"}}') == [
        f"4:30: window.target_context_len: found text '{'x' * 37}'…, expected a whole number"
    ]
    (message,) = below('"\\e[31m": 1')
    assert message.startswith("4:1: \\x1b[31m: unknown key, known: baseline, contract, ")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("null", "nothing (null)"),
        ("[1]", "a list"),
        ("{a: 1}", "a mapping"),
        ("1.5", "1.5"),
        ("false", "false"),
    ],
)
def test_types_are_never_converted(below, text, found):
    assert below(f"window: {{target_context_len: {text}}}") == [
        f"4:30: window.target_context_len: found {found}, expected a whole number"
    ]


@pytest.mark.parametrize("section", ["lengths", "window", "packing", "curriculum"])
def test_an_empty_section_is_refused(below, section):
    assert below(f"{section}:\n") == [
        f"4:{len(section) + 2}: {section}: found nothing (null), expected its keys, or no such section"
    ]


LINES = st.sampled_from(
    [
        "contract: 1",
        "tokenizer: {path: a/b}",
        "tokenizer: {path: [1], revision: 5}",
        "dataset: {path: [a, 5], split: x}",
        "dataset:",
        "  path: x",
        "  - y",
        "window: {target_context_len: 8, limits: {max_overflow_ratio: .nan}}",
        "window: &w {target_context_len: -1, warn: *w}",
        "packing: {invariants: {except: [x]}, packer: [], trainer: {name: 1}}",
        "packing: {invariants: [capacity, 1], limits: {str: 1}}",
        "curriculum: {stages: [{metrics: {map: 1}}, 5], baseline: {metrics: 1}}",
        "gpu: {model: {id: 1}, sequence_lengths: [1, 2, 2]}",
        "waivers: [{check: 'a::b', until: 2027-02-30}]",
        "lengths: {short_threshold: 5, long_threshold: 1, limits: {min_long_share: 1, max_long_share: 0}}",
        "'\\x': [",
        "]",
    ]
)


@given(st.lists(st.one_of(LINES, st.text(max_size=12)), max_size=8).map("\n".join))
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_contracts_are_loaded_or_refused(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    problems = []
    try:
        load_contract(path)
    except ContractError as error:
        problems = error.problems
    assert [problem.line for problem in problems] == sorted(problem.line for problem in problems)
    assert all(f"{problem.key}{problem.message}".isprintable() for problem in problems)


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_are_refused(tmp_path, content):
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    with pytest.raises(ContractError):
        load_contract(path)


def test_only_rows_of_lengths_need_no_tokenizer(load, problems):
    contract = load("contract: 1\ndataset: {path: d.jsonl, shape: lengths}")
    assert contract.tokenizer is None
    assert problems("contract: 1\ndataset: {path: d.jsonl, shape: text}") == ["1:1: tokenizer: missing"]
    assert problems("contract: 1\ntokenizer:\ndataset: {path: d.jsonl}") == ["2:1: tokenizer: missing"]


def test_a_contract_of_one_mebibyte_is_read(load):
    text = "contract: 1\ndataset: {path: d.jsonl, shape: lengths}\n#"
    assert load(text + "x" * (1024 * 1024 - len(text))).dataset.shape == "lengths"


@pytest.mark.parametrize(("letters", "shown"), [(80, "k" * 80), (81, "k" * 79 + "…")])
def test_keys_are_shown_in_eighty_columns(problems, letters, shown):
    (problem,) = problems(f"contract: 1\ndataset: {{path: d.jsonl, shape: lengths}}\n{'k' * letters}: 1\n")
    assert problem.startswith(f"3:1: {shown}: ")
