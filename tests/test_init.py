from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import pytest
import yaml

from pytest_longctx import check_contract
from pytest_longctx.cli import main
from pytest_longctx.contract import json_schema
from pytest_longctx.dataset.rows import Row
from pytest_longctx.init import Proposal, Source, limits, text
from pytest_longctx.init.columns import read_columns
from pytest_longctx.verdict import Verdict

COMMIT = "0123456789" * 4


def chat(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, examples):
    """Writes rows to `rows.jsonl` and runs `longctx init` on them; gives status, output, contract's terms."""
    monkeypatch.chdir(tmp_path)
    # The reference packer, so that nothing heavy is loaded.
    monkeypatch.setattr("pytest_longctx.init.proposal.find_spec", lambda name: None)

    def init(rows, *extra, template="chatml.jinja", output="contracts/rows.yaml"):
        if rows is not None:
            lines = (json.dumps(row) + "\n" for row in rows)
            Path("rows.jsonl").write_text("".join(lines), encoding="utf-8")
        named = ["--template", str(examples / template)] if template else []
        status = main(
            ["init", "rows.jsonl", "--tokenizer", str(examples / "tokenizer"), *named, "-o", output, *extra]
        )
        path = Path(output)
        return status, capsys.readouterr().out, yaml.safe_load(path.read_text()) if path.exists() else None

    return init


SHAREGPT = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]


def chats(number=120):
    """Every row has its id and one of three sources; one answer of 120 is 400 words long."""
    return [
        {
            "uid": f"chat-{i}",
            "source": "abc"[i % 3],
            "messages": chat(f"What is {i} and {i}?", "word " * 400 if i % 120 == 0 else f"It is {2 * i}."),
        }
        for i in range(number)
    ]


def test_a_contract_passes_and_says_what_was_measured(run):
    status, output, terms = run(chats(240))
    today = dt.datetime.now(dt.timezone.utc).date()
    assert status == 0
    report = check_contract("contracts/rows.yaml")
    assert report.passed
    assert terms["dataset"] == {"path": "../rows.jsonl", "shape": "messages", "id": "uid"}
    contract = Path("contracts/rows.yaml").read_text()
    assert f"measured 0.83 % on {today}" in contract  # 2 of 240 answers do not fit
    assert "# slices: source" in contract
    assert output.endswith("next: pytest --longctx-contract=contracts/rows.yaml\n")


def test_limits_have_room_over_what_is_measured(run):
    _, _, terms = run(chats(240))
    measured = {
        result.check.id: result.verdict.measured
        for result in check_contract("contracts/rows.yaml").results
        if result.check.key[1:2] == ("limits",) and result.check.section != "dataset"
    }
    assert measured
    for name, value in measured.items():
        section, _, limit = name.partition("::")
        proposed = terms[section]["limits"][limit]
        assert proposed < value if limit.startswith("min_") else proposed > value


def test_the_schema_for_editors_lies_beside_the_contract(run):
    run(chats())
    first = Path("contracts/rows.yaml").read_text().splitlines()[0]
    named = first.removeprefix("# yaml-language-server: $schema=")
    assert json.loads(Path("contracts", named).read_text()) == json_schema()


def test_an_existing_file_stays_without_force(run):
    run(chats())
    Path("contracts/rows.yaml").write_text("mine: 1\n")
    Path("contracts/longctx.schema.json").write_text("{}")
    status, output, terms = run(chats())
    assert (status, terms) == (1, {"mine": 1})
    assert output == (
        "contracts/rows.yaml: there is such a file; --force writes over it, -o FILE writes elsewhere\n"
    )
    run(chats(), output="contracts/other.yaml")
    assert Path("contracts/longctx.schema.json").read_text() == "{}"
    status, _, terms = run(chats(), "--force")
    assert (status, terms["contract"]) == (0, 1)


def test_nothing_is_left_behind_where_the_contract_does_not_pass(run, monkeypatch):
    monkeypatch.setattr("pytest_longctx.init.proposal.proposed", too_tight)
    status, output, terms = run(chats())
    assert status == 1
    assert output.startswith(
        "the proposed contract does not pass, so it was not written:\nlengths::max_tokens:"
    )
    assert terms is None
    assert list(Path("contracts").iterdir()) == []


def too_tight(name, verdict, samples):
    value = 1 if verdict.unit in ("tokens", "factor") else 0.0
    return limits.Proposed(value, verdict.measured, verdict.unit) if name == "max_tokens" else None


def test_what_fails_is_waived_for_a_month_and_told(run):
    rows = chats()
    rows[3]["messages"] = chat("And?", "")
    rows[4]["messages"] = []
    status, output, terms = run(rows)
    until = dt.datetime.now(dt.timezone.utc).date() + dt.timedelta(days=30)
    assert status == 0
    assert [(waiver["check"], waiver["until"]) for waiver in terms["waivers"]] == [
        ("dataset::rows", until),
        ("supervision::present", until),
    ]
    assert terms["waivers"][0]["reason"] == "found by longctx init: rows: 1 of 120 rows cannot be used"
    told = " ".join(output.split())
    assert "dataset::rows: 1 of 120 rows cannot be used (1 × empty_messages)" in told
    assert "first in chat-3: the row trains nothing of its answer" in told
    assert f"(waived until {until})" in told


def test_a_few_offending_rows_get_a_limit_and_many_a_waiver(run):
    few, many = chats(), chats()
    for row in (few[5], *many[:60]):
        row["messages"][0]["content"] = "What does <|im_end|> mean?"
    _, output, terms = run(few)
    assert terms["dataset"]["limits"] == {"control_tokens": 2}
    assert "(the proposed limit allows it)" in " ".join(output.split())
    _, _, terms = run(many, "--force")
    assert "limits" not in terms["dataset"]
    assert [waiver["check"] for waiver in terms["waivers"]] == ["dataset::control_tokens"]


def test_a_template_without_generation_blocks_gets_its_training_variant(tmp_path, run, monkeypatch, examples):
    plain = (examples / "chatml_plain.jinja").read_text()
    folder = tmp_path / "trl" / "chat_templates"
    folder.mkdir(parents=True)
    (folder / "plain.jinja").write_text(plain)
    (folder / "plain_training.jinja").write_text((examples / "chatml.jinja").read_text())
    monkeypatch.setattr("pytest_longctx.tokens.tokenizer.trl_templates", lambda: folder)
    status, output, terms = run(chats(), template="chatml_plain.jinja")
    assert status == 0
    assert terms["tokenizer"]["chat_template"] == "trl:plain_training"
    assert "names trl:plain_training, TRL's training variant of it" in " ".join(output.split())


def test_without_such_a_variant_it_says_what_to_do(run, monkeypatch, tmp_path):
    monkeypatch.setattr("pytest_longctx.tokens.tokenizer.trl_templates", lambda: tmp_path)
    monkeypatch.setattr("pytest_longctx.init.template.trl_templates", lambda: tmp_path)
    status, output, terms = run(chats(), template="chatml_plain.jinja")
    assert (status, terms) == (1, None)
    assert "has no {% generation %} block, so nothing is supervised; use a training variant" in output


def test_without_a_template_those_that_fit_the_tokenizer_are_named(run, monkeypatch, tmp_path):
    (tmp_path / "fits_training.jinja").write_text("<|im_start|>{{ messages }}<|im_end|>")
    (tmp_path / "tokenizer_training.jinja").write_text("<|im_start|>")
    (tmp_path / "foreign_training.jinja").write_text("<|start_header_id|>")
    monkeypatch.setattr("pytest_longctx.init.template.trl_templates", lambda: tmp_path)
    status, output, _ = run(chats(), template=None)
    assert status == 1
    assert output.startswith("the tokenizer brings no chat template: name the one that the training run uses")
    # The one that is named as the tokenizer's folder is named comes first.
    assert output.endswith("special tokens:\n  trl:tokenizer_training, trl:fits_training\n")


def test_a_template_that_does_not_fit_the_rows_is_told_first(run):
    rows = [{"messages": chat(f"What is {i}?", "")} for i in range(120)]
    _, output, _ = run(rows)
    assert output.split("worth a look:\n")[1].startswith(
        "  - most samples have no answer to learn: the template"
    )


@pytest.mark.parametrize(
    ("row", "shape", "turns"),
    [
        ({"text": "Once upon a time."}, "text", "every_token"),
        ({"prompt": "2 + 2 = ", "completion": "4"}, "prompt_completion", "completion"),
        ({"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, "tokenized", None),
        ({"instruction": "Say hi.", "input": "", "output": "Hi."}, "alpaca", None),
        (
            {"conversations": SHAREGPT},
            "sharegpt",
            None,
        ),
    ],
)
def test_every_shape_gets_its_supervision(run, row, shape, turns):
    status, output, terms = run([row] * 20)
    assert status == 0, output
    assert terms["dataset"]["shape"] == shape
    assert terms.get("supervision", {}).get("turns") == turns
    assert "there are only 20 samples: one of them moves a share by 5 %" in output


def test_lengths_need_no_tokenizer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("l.json").write_text(
        json.dumps([{"prompt_tokens": 90, "supervised_tokens": i} for i in range(1, 101)])
    )
    assert main(["init", "l.json"]) == 0
    terms = yaml.safe_load(Path("contracts/l.yaml").read_text())
    assert not {"tokenizer", "packing"} & terms.keys()
    # The 99th of 100 samples has 189 tokens; 190 is the longest.
    assert terms["window"]["target_context_len"] == 192
    assert terms["lengths"]["limits"]["max_tokens"] == 240  # 190 and a quarter is 237.5
    assert check_contract("contracts/l.yaml").passed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["registered:mine"], "registered:mine: init reads files and datasets on the Hub; for a registered"),
        (["org/name"], "org/name: there is no such file or folder; a dataset on the Hub is named with its"),
        (
            ["org/name@main:train"],
            "org/name@main:train: there is no such file or folder; a dataset on",
        ),
        ([f"org/name@{COMMIT}"], f"org/name@{COMMIT}: the split is missing; a dataset on the Hub"),
        ([f"org/name@{COMMIT}:train", "rows.jsonl"], "a contract reads one dataset on the Hub, or files"),
        (["rows.jsonl"], "rows of shape messages need a tokenizer: --tokenizer FOLDER"),
        (
            ["rows.jsonl", "--tokenizer", "org/name"],
            "org/name: there is no such folder; give",
        ),
        (["empty.jsonl"], "no readable row"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_words(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(json.dumps({"messages": chat("Hi", "Ho")}) + "\n")
    Path("empty.jsonl").write_text("")
    assert main(["init", *arguments]) == 1
    assert message in capsys.readouterr().out
    assert not Path("contracts").exists()


def test_a_file_that_is_not_there_is_told_with_what_lies_beside_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("chats.jsonl").write_text("")
    assert main(["init", "chat.jsonl"]) == 1
    assert capsys.readouterr().out == (
        f"dataset.path '{tmp_path / 'chat.jsonl'}': no such file; {tmp_path} holds chats.jsonl\n"
    )
    assert not Path("contracts").exists()


def test_rows_that_all_fail_are_told_with_the_first(run):
    status, output, _ = run([{"messages": []}] * 3)
    assert status == 1
    assert output.startswith("none of 3 rows can be used: 3 × empty_messages; the first: rows.jsonl:1: ")


# Data on the Hub; a stand-in for it gives the rows of a file, by the real streaming loader.


@pytest.fixture
def hub(run, tmp_path, monkeypatch, lasting_imports):
    """The calls of `datasets.load_dataset`, which reads `hub.jsonl` whatever it is asked for."""
    datasets = pytest.importorskip("datasets")
    real, made = datasets.load_dataset, []

    def load_dataset(path, **kwargs):
        made.append((path, kwargs))
        return real("json", data_files=str(tmp_path / "hub.jsonl"), split="train", streaming=True)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    rows = (json.dumps(row) + "\n" for row in chats())
    (tmp_path / "hub.jsonl").write_text("".join(rows), encoding="utf-8")
    return made


def init_hub(examples, named, *extra):
    tokenizer = ["--tokenizer", str(examples / "tokenizer"), "--template", str(examples / "chatml.jinja")]
    return main(["init", named, *tokenizer, *extra])


@pytest.mark.parametrize(
    ("suffix", "pin"),
    [("train", {"split": "train"}), ("en:train_sft", {"config": "en", "split": "train_sft"})],
)
def test_a_dataset_on_the_hub(hub, capsys, examples, suffix, pin):
    assert init_hub(examples, f"org/Chats.v2@{COMMIT}:{suffix}") == 0, capsys.readouterr().out
    terms = yaml.safe_load(Path("contracts/Chats-v2.yaml").read_text())
    assert terms["dataset"] == {
        "path": "org/Chats.v2",
        "revision": COMMIT,
        **pin,
        "shape": "messages",
        "id": "uid",
    }
    asked = {"name": pin.get("config"), "revision": COMMIT, "split": pin["split"], "streaming": True}
    assert {path for path, _ in hub} == {"org/Chats.v2"}
    assert all(kwargs == asked for _, kwargs in hub)
    assert "120 samples, recognised: messages" in capsys.readouterr().out
    assert check_contract("contracts/Chats-v2.yaml").passed


def test_a_hub_that_cannot_be_reached_is_told(run, monkeypatch, capsys, examples, lasting_imports):
    datasets = pytest.importorskip("datasets")

    def load_dataset(*args, **kwargs):
        raise ConnectionError("Couldn't reach 'org/chats' on the Hub")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert init_hub(examples, f"org/chats@{COMMIT}:train") == 1
    assert "cannot be read from the Hub: Couldn't reach 'org/chats'" in capsys.readouterr().out
    assert not Path("contracts").exists()


def test_a_file_named_like_a_dataset_on_the_hub_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("org").mkdir()
    Path("org", f"name@{COMMIT}:train").write_text("{}")
    assert Source.of([f"org/name@{COMMIT}:train"], None, None).pin == ()


def test_a_tokenizers_commit_of_digits_alone_stays_text(run, monkeypatch):
    source = Source.of(["rows.jsonl"], f"org/name@{COMMIT}", None)
    proposal = Proposal(source, dt.date(2027, 1, 31), terms={"tokenizer": {}})
    lines = "\n".join(text._tokenizer(proposal, source))
    assert yaml.safe_load(lines)["tokenizer"]["revision"] == COMMIT


# Window, limits and columns by themselves.


@pytest.mark.parametrize(
    ("tokens", "window"),
    [
        (1, 64),
        (64, 64),
        (65, 96),
        (96, 96),
        (97, 128),
        (3000, 3072),
        (3073, 4096),
        (4097, 6144),
        (8192, 8192),
    ],
)
def test_windows_are_powers_of_two_or_one_and_a_half_of_one(tokens, window):
    assert limits.round_window(tokens) == window


@pytest.mark.parametrize(
    ("name", "measured", "unit", "limit"),
    [
        ("max_tokens", 11544, "tokens", 15000),
        ("max_p95_tokens", 80, "tokens", 100),
        ("max_overflow_ratio", 0.0, "ratio", 0.005),
        ("max_overflow_ratio", 0.02, "ratio", 0.03),
        ("max_overflow_ratio", 1.0, "ratio", 1.0),
        ("min_kept_supervision_ratio", 1.0, "ratio", 0.995),
        ("min_utilization", 0.9, "ratio", 0.85),
        ("min_long_share", 0.3, "ratio", 0.15),
        ("max_rows_over_bound", 1.0, "factor", 1.02),
        ("max_rows_over_bound", 1.1, "factor", 1.15),
    ],
)
def test_room_by_kind_of_limit(name, measured, unit, limit):
    assert limits.proposed(name, Verdict("passed", "", measured, None, unit), 1000).value == limit


def test_a_share_of_fewer_than_ten_long_samples_gets_no_limit():
    verdict = Verdict("passed", "", 0.09, None, "ratio")
    assert limits.proposed("min_long_share", verdict, 100) is None


def test_an_id_is_a_column_of_unique_values_named_like_one():
    rows = [
        Row(f"f:{i}", "f", i, {"name": f"n{i}", "doc_id": i, "id": i % 3, "source": "ab"[i % 2], "n": i})
        for i in range(1, 21)
    ]
    found = read_columns(rows)
    assert found.id == "doc_id"
    assert found.repeated == {"id": 17}
    assert found.slices == {"source": 2}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("../data/a.jsonl", "../data/a.jsonl"),
        ("../../a", "../../a"),
        ("trl:qwen3_training", "trl:qwen3_training"),
        ("window::policy", '"window::policy"'),
        ("*.jsonl", '"*.jsonl"'),
        ("yes", '"yes"'),
        ("1e3", '"1e3"'),
        ("a: b # c", '"a: b # c"'),
        (["a", "b c"], '[a, "b c"]'),
    ],
)
def test_values_come_back_from_yaml(value, written):
    assert text.scalar(value) == written
    assert yaml.safe_load(written) == value


@pytest.mark.parametrize(
    ("data", "name"),
    [("data/chats.jsonl", "chats"), ("data/*.jsonl", "data"), ("a b.json.gz", "a-b"), ("sets/mine/", "mine")],
)
def test_the_name_comes_from_the_data(data, name):
    assert Source((data,)).name == name


def test_a_hub_tokenizer_is_named_with_its_commit():
    commit = "0123456789abcdef" * 2 + "01234567"
    source = Source.of(["../rows.jsonl"], f"org/name@{commit}", None)
    assert (source.tokenizer, source.revision) == ("org/name", commit)


# Real data.


@pytest.fixture
def real_data():
    folder = os.environ.get("LONGCTX_REAL_DATA")
    if not folder:
        pytest.skip("LONGCTX_REAL_DATA is not set")
    return Path(folder)


@pytest.mark.parametrize(
    ("name", "shape", "waived"),
    [
        ("glaive_toolcall_en_demo.json", "sharegpt", []),
        ("v1_sft_demo.jsonl", "messages", ["dataset::content_survives", "supervision::present"]),
    ],
)
def test_real_data(real_data, tmp_path, monkeypatch, name, shape, waived):
    pytest.importorskip("trl")
    monkeypatch.setattr("pytest_longctx.init.proposal.find_spec", lambda name: None)
    tokenizer = str(real_data / "qwen3_tokenizer")
    output = tmp_path / "c.yaml"
    arguments = [str(real_data / name), "--tokenizer", tokenizer, "--template", "trl:qwen3_training"]
    assert main(["init", *arguments, "-o", str(output)]) == 0
    terms = yaml.safe_load(output.read_text())
    assert terms["dataset"]["shape"] == shape
    assert [waiver["check"] for waiver in terms.get("waivers", [])] == waived
