"""What must not change a verdict does not; what loosens a limit never fails what passed; counts add up."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_longctx.checks import checks_of
from pytest_longctx.contract import dump, load_contract
from pytest_longctx.evidence import BrokenLinkError, Evidence
from pytest_longctx.tokens import build

SMALL = settings(
    deadline=None, max_examples=12, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
LIMITS = {
    "window": {
        "max_overflow_ratio": 1.0,
        "max_truncated_ratio": 1.0,
        "min_kept_supervision_ratio": 0.0,
        "min_kept_turn_ratio": 0.0,
    },
    "lengths": {
        "max_tokens": 4096,
        "max_p50_tokens": 4096,
        "max_p95_tokens": 4096,
        "min_long_share": 0.0,
        "max_long_share": 1.0,
        "min_short_share": 0.0,
        "max_short_share": 1.0,
    },
    "packing": {"min_utilization": 0.0, "max_rows_over_bound": 100.0, "max_padding_ratio": 1.0},
}
words = st.lists(st.sampled_from(["why", "not", "ä", "👩‍👩‍👧", "<|im_end|>", "1024", "\n"]), max_size=12)
texts = words.map(" ".join)


@st.composite
def row(draw):
    turns = draw(st.integers(1, 2))
    messages = [{"role": "system", "content": draw(texts)}] if draw(st.booleans()) else []
    for _ in range(turns):
        messages += [{"role": "user", "content": draw(texts)}, {"role": "assistant", "content": draw(texts)}]
    if draw(st.integers(0, 9)) == 0:
        messages[-1]["role"] = draw(st.sampled_from(["bot", "user"]))
    return {"messages": messages}


rows_of_chats = st.lists(row(), min_size=1, max_size=8)


@st.composite
def terms(draw):
    """A random contract's sections `window`, `lengths` and `packing`, each with limits at random places."""

    def limits(section):
        chosen = draw(st.lists(st.sampled_from(sorted(LIMITS[section])), min_size=1, unique=True))
        return {name: draw(_value(name)) for name in chosen}

    window = draw(st.integers(4, 80))
    return {
        "window": {
            "target_context_len": window,
            "max_supervision_loss_ratio": draw(st.sampled_from([0.0, 0.5, 1.0])),
            "limits": limits("window"),
        },
        "lengths": {"short_threshold": 20, "long_threshold": 40, "limits": _meetable(limits("lengths"))},
        "packing": {
            "packer": draw(st.sampled_from(["ffd", "bfd", "none"])),
            "max_tokens_per_bin": draw(st.sampled_from([window, window + 30])),
            "limits": limits("packing"),
        },
    }


def _value(name: str) -> st.SearchStrategy[Any]:
    if name.endswith("_tokens"):
        return st.integers(1, 90)
    if name == "max_rows_over_bound":
        return st.sampled_from([1.0, 1.5, 3.0])
    return st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])


def _meetable(limits: dict[str, Any]) -> dict[str, Any]:
    """Without pairs that no value meets: those the loader refuses."""
    if limits.get("min_long_share", 0) + limits.get("min_short_share", 0) > 1:
        del limits["min_short_share"]
    for which in ("long", "short"):
        if limits.get(f"min_{which}_share", 0) > limits.get(f"max_{which}_share", 1):
            del limits[f"max_{which}_share"]
    return limits


@pytest.fixture
def project(tmp_path, examples):
    """Write rows into files beside a contract, and load it."""

    def write(sections, *files, ids=None):
        for old in tmp_path.glob("*.jsonl"):
            old.unlink()
        for number, chats in enumerate(files):
            lines = "".join(json.dumps(chat) + "\n" for chat in chats)
            (tmp_path / f"{number}.jsonl").write_text(lines, encoding="utf-8")
        data = {
            "contract": 1,
            "tokenizer": {
                "path": str(examples / "tokenizer"),
                "chat_template": str(examples / "chatml.jinja"),
            },
            "dataset": {"path": "*.jsonl", "shape": "messages", **({"id": ids} if ids else {})},
            **sections,
        }
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
        return load_contract(tmp_path / "c.yaml")

    return write


def judged(contract):
    """Outcome and measured value of every check; the evidence that could not be made as its error."""
    evidence, found = Evidence(contract), {}
    for check in checks_of(contract):
        if check.name == "arrow_round_trip":  # another library's reading of the files, tested elsewhere
            continue
        try:
            verdict = check.run(evidence)
        except BrokenLinkError as error:
            found[check.id] = ("error", type(error.cause).__name__)
        else:
            found[check.id] = (verdict.outcome, verdict.measured)
    return found


@SMALL
@given(chats=rows_of_chats, sections=terms(), order=st.randoms(use_true_random=False))
def test_the_order_of_the_rows(project, chats, sections, order):
    before = judged(project(sections, chats))
    order.shuffle(chats)
    assert judged(project(sections, chats)) == before


@SMALL
@given(chats=rows_of_chats, sections=terms(), cut=st.integers(0, 8))
def test_rows_in_one_file_or_two(project, chats, sections, cut):
    parts = [part for part in (chats[:cut], chats[cut:]) if part]
    assert judged(project(sections, *parts)) == judged(project(sections, chats))


@SMALL
@given(chats=rows_of_chats, sections=terms(), prefix=texts)
def test_the_names_of_the_rows(project, chats, sections, prefix):
    plain = [{"uid": str(number), **chat} for number, chat in enumerate(chats)]
    renamed = [{"uid": f"{prefix}{len(chats) - number}", **chat} for number, chat in enumerate(chats)]
    assert judged(project(sections, renamed, ids="uid")) == judged(project(sections, plain, ids="uid"))


@SMALL
@given(chats=rows_of_chats, sections=terms(), size=st.integers(1, 9))
def test_the_size_of_a_block(project, chats, sections, size):
    contract = project(sections, chats)
    before, usual = judged(contract), build.BLOCK
    build.BLOCK = size
    try:
        assert judged(contract) == before
    finally:
        build.BLOCK = usual


@SMALL
@given(chats=rows_of_chats, sections=terms(), data=st.data())
def test_a_looser_limit_never_fails_what_passed(project, chats, sections, data):
    strict = judged(project(sections, chats))
    section = data.draw(st.sampled_from(["window", "lengths", "packing"]))
    name = data.draw(st.sampled_from(sorted(sections[section]["limits"])))
    limits = {**sections[section]["limits"], name: LIMITS[section][name]}
    loose = judged(project({**sections, section: {**sections[section], "limits": limits}}, chats))
    assert loose[f"{section}::{name}"][0] in (strict[f"{section}::{name}"][0], "passed")
    others = [check for check in strict if check != f"{section}::{name}"]
    assert {check: loose[check] for check in others} == {check: strict[check] for check in others}


@SMALL
@given(first=rows_of_chats, second=rows_of_chats, sections=terms())
def test_the_counts_of_a_union_are_sums(project, first, second, sections):
    alone = [Evidence(project(sections, part)).measured for part in (first, second)]
    both = Evidence(project(sections, first, second)).measured
    for name in ("total", "template", "prompt", "supervised", "answer"):
        parts = np.concatenate([getattr(measured.ledger, name) for measured in alone])
        assert getattr(both.ledger, name).tolist() == parts.tolist()
    assert both.rows == sum(measured.rows for measured in alone)
    assert both.rejected == alone[0].rejected + alone[1].rejected
    assert both.findings.counts == alone[0].findings.counts + alone[1].findings.counts


@SMALL
@given(chats=rows_of_chats, sections=terms())
def test_a_dump_is_the_same_contract(project, tmp_path, chats, sections):
    contract = project(sections, chats)
    again = tmp_path / "again.yaml"
    again.write_text(dump(contract), encoding="utf-8")
    loaded = load_contract(again)
    assert loaded.model_dump() == contract.model_dump()
    assert judged(loaded) == judged(contract)
