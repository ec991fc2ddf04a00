"""The rows that a trainer's loader hands on, with what the contract adds to them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pytest_longctx.dataset import Conversation, RowProblem
from pytest_longctx.packing.trainer_rows import load_files, trainer_dataset

datasets = pytest.importorskip("datasets")

CHAT = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


class Rows(list):
    converted = False
    files = ()


def request(rows=(), files=(), converted=False, columns=None, sample=None, kwargs=None):
    dataset = Rows(rows)
    dataset.files, dataset.converted = files, converted
    section = SimpleNamespace(columns=columns, sample=sample)
    return SimpleNamespace(
        dataset=dataset,
        contract=SimpleNamespace(dataset=section),
        tokenizer=SimpleNamespace(template_kwargs=kwargs or {}),
    )


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def file(tmp_path):
    return written(tmp_path / "a.jsonl", {"uid": "x", "text": "from the file"})


READ = [Conversation("a", "a.jsonl", 1, text="as read")]


def test_files_of_the_trainers_own_shape(tmp_path, file):
    rows = trainer_dataset(request(READ, [file]), tmp_path)
    assert list(rows) == [{"uid": "x", "text": "from the file"}]
    assert (tmp_path / "datasets").is_dir()


@pytest.mark.parametrize("own", [{"converted": True}, {"columns": {"text": "t"}}, {"sample": 5}])
def test_rows_that_the_contract_converts_come_from_its_reader(tmp_path, file, own):
    assert list(trainer_dataset(request(READ, [file], **own), tmp_path)) == [{"text": "as read"}]


def test_rows_without_files(tmp_path):
    assert list(trainer_dataset(request(READ), tmp_path)) == [{"text": "as read"}]


def test_files_that_cannot_be_read_together(tmp_path, file):
    broken = tmp_path / "b.jsonl"
    broken.write_text("{]")
    assert list(trainer_dataset(request(READ, [file, broken]), tmp_path)) == [{"text": "as read"}]


def test_rejected_rows_are_left_out_and_columns_filled(tmp_path):
    rows = [
        Conversation("a", "f", 1, messages=CHAT, tools=[TOOL]),
        RowProblem("b", "f", 2, "no_messages", "no messages"),
        Conversation("c", "f", 3, messages=CHAT, template_kwargs={"lang": "de"}),
    ]
    assert list(trainer_dataset(request(rows), tmp_path)) == [
        {"messages": CHAT, "tools": [TOOL], "chat_template_kwargs": {}},
        {"messages": CHAT, "tools": None, "chat_template_kwargs": {"lang": "de"}},
    ]


def test_the_contracts_template_variables_yield_to_the_rows_own(tmp_path):
    rows = [
        Conversation("a", "f", 1, text="t", template_kwargs={"lang": "de"}),
        Conversation("b", "f", 2, text="t"),
    ]
    kwargs = {"lang": "en", "date": "today"}
    assert [
        row["chat_template_kwargs"] for row in trainer_dataset(request(rows, kwargs=kwargs), tmp_path)
    ] == [
        {"lang": "de", "date": "today"},
        {"lang": "en", "date": "today"},
    ]


def test_template_variables_where_rows_have_no_column_of_them(tmp_path, file):
    (row,) = trainer_dataset(request(files=[file], kwargs={"lang": "en"}), tmp_path)
    assert row == {"uid": "x", "text": "from the file", "chat_template_kwargs": {"lang": "en"}}


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_files_by_their_endings(tmp_path, ending):
    source = datasets.Dataset.from_list([{"text": "t"}])
    file = tmp_path / f"a.{ending}"
    if ending == "parquet":
        source.to_parquet(str(file))
    else:
        import pyarrow as pa

        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, source.data.schema) as writer:
            writer.write_table(source.data.table)
    assert list(load_files(datasets, [str(file)], tmp_path)) == [{"text": "t"}]


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_compressed_files_by_the_ending_within(tmp_path, ending):
    import gzip

    plain = b'{"text": "t"}\n'
    if ending == "gz":
        packed = gzip.compress(plain)
    else:
        packed = pytest.importorskip("zstandard", reason="zstandard is not installed").compress(plain)
    file = tmp_path / f"a.jsonl.{ending}"
    file.write_bytes(packed)
    assert list(load_files(datasets, [str(file)], tmp_path)) == [{"text": "t"}]


@pytest.mark.parametrize(("files", "tried"), [("a.json b.jsonl", ["json"]), ("a.json b.parquet", [])])
def test_files_of_several_kinds_are_not_tried(tmp_path, files, tried):
    loaded = []
    stand_in = SimpleNamespace(load_dataset=lambda builder, **_: loaded.append(builder))
    assert load_files(stand_in, files.split(), tmp_path) is None
    assert loaded == tried


def test_two_endings_of_one_kind(tmp_path, file):
    other = written(tmp_path / "b.json", {"uid": "y", "text": "u"})
    assert [row["uid"] for row in load_files(datasets, [str(file), str(other)], tmp_path)] == ["x", "y"]
