from __future__ import annotations

import json

import pyarrow as pa
import pytest
from datasets import Dataset, Features, Json, Value
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, ipc, parquet

from pytest_longctx.dataset.columnar import read_columns
from pytest_longctx.dataset.fault import RowError

SETTINGS = settings(deadline=None, max_examples=25)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "messages": st.lists(
                st.builds(lambda role, content: {"role": role, "content": content}, TEXTS, TEXTS | st.none()),
                max_size=3,
            ),
            "n": st.integers(-(2**63), 2**63 - 1) | st.none(),
            "ids": st.lists(st.integers(0, 2**31 - 1), max_size=4),
        }
    ),
    min_size=1,
    max_size=8,
)


def read(path):
    found = []
    try:
        for number, value in read_columns(path):
            found.append((number, value.kind if isinstance(value, RowError) else value))
    except RowError as fault:
        found.append(("end", fault.kind))
    return found


def write_stream(table, path, batch_rows=None):
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, batch_rows)


def write_file(table, path, batch_rows=None):
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, batch_rows)


@SETTINGS
@given(rows=ROWS)
def test_rows_come_back_exactly(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    rows = [{key: row[key] for key in ("messages", "n", "ids")} for row in rows]
    schema = pa.schema(
        {
            "messages": pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
            "n": pa.int64(),
            "ids": pa.list_(pa.int32()),
        }
    )
    table = pa.Table.from_pylist(rows, schema)
    parquet.write_table(table, folder / "a.parquet", row_group_size=3)
    write_stream(table, folder / "b.arrow", 2)
    write_file(table, folder / "c.arrow", 2)
    feather.write_feather(table, folder / "d.arrow", compression="zstd")
    for name in ("a.parquet", "b.arrow", "c.arrow", "d.arrow"):
        assert json.dumps(read(folder / name)) == json.dumps(list(enumerate(rows, 1))), name


def test_rows_are_numbered_through_batches_and_row_groups(tmp_path):
    table = pa.table({"n": list(range(1_000))})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    write_stream(table, tmp_path / "b.arrow", 333)
    for name in ("a.parquet", "b.arrow"):
        assert read(tmp_path / name) == [(n + 1, {"n": n}) for n in range(1_000)]


def test_json_features_of_datasets_are_decoded(tmp_path):
    rows = [
        {"m": [{"role": "user", "x": 1}], "n": 2**60, "t": "a"},
        {"m": [{"role": "user", "x": "1"}], "n": None, "t": "b"},
    ]
    dataset = Dataset.from_list(rows, features=Features({"m": [Json()], "n": Json(), "t": Value("string")}))
    dataset.to_parquet(tmp_path / "a.parquet")
    dataset.save_to_disk(tmp_path / "saved")
    assert read(tmp_path / "a.parquet") == list(enumerate(rows, 1))
    assert read(tmp_path / "saved" / "data-00000-of-00001.arrow") == list(enumerate(rows, 1))


def test_broken_json_in_a_json_column_is_a_fault_of_its_row(tmp_path):
    storage = pa.array([{"j": "{}"}, {"j": "{"}, None], pa.struct({"j": pa.string()}))
    column = storage.cast(pa.struct({"j": pa.json_()}))
    parquet.write_table(pa.table({"a": column}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == [(1, {"a": {"j": {}}}), (2, "broken_json"), (3, {"a": None})]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_empty_table_and_empty_file_have_no_rows(tmp_path, name):
    table = pa.table({"a": pa.array([], pa.string())})
    parquet.write_table(table, tmp_path / name) if name == "a.parquet" else write_stream(
        table, tmp_path / name
    )
    assert read(tmp_path / name) == []
    (tmp_path / name).write_bytes(b"")
    assert read(tmp_path / name) == []


@SETTINGS
@given(data=st.binary(min_size=1, max_size=80), name=st.sampled_from(["a.parquet", "a.arrow"]))
def test_random_bytes_are_a_broken_file(tmp_path_factory, data, name):
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(data)
    assert read(path) in ([("end", "broken_file")], [])


@pytest.mark.parametrize("kind", ["parquet", "stream", "file"])
def test_damaged_files_never_raise_anything_else(tmp_path, kind):
    table = pa.table({"t": [f"text {n}" * 3 for n in range(40)], "l": [[n] * (n % 4) for n in range(40)]})
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.arrow")
    write = {"parquet": parquet.write_table, "stream": write_stream, "file": write_file}[kind]
    write(table, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 13):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        read(path)
        path.write_bytes(whole[:place])
        read(path)


def test_offsets_that_lie_are_a_broken_file(tmp_path):
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1_000_000, 3)))
    lying = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    batch = pa.record_batch([lying], ["t"])
    with ipc.new_stream(tmp_path / "a.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    assert read(tmp_path / "a.arrow") == [("end", "broken_file")]
