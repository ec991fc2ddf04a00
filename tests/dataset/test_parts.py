"""The parts of a file together are the file, wherever it is cut."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_longctx.dataset.fault import RowError
from pytest_longctx.dataset.parts import Part, read_part, split
from pytest_longctx.dataset.rows import read_file

LINES = st.sampled_from(
    ['{"a": 1}', '{"text": "ä\\n👍"}', "", "  ", "{broken", "[1]", '{"a": "' + "x" * 50 + '"}']
)
ANY = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def plain(values):
    return [value.kind if isinstance(value, RowError) else value for value in values]


def whole(path):
    return [
        row.value if hasattr(row, "value") else "not an object" if row.kind == "not_an_object" else row.kind
        for row in read_file(path, "x")
        if row.number
    ]


@ANY
@given(
    lines=st.lists(LINES, max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    mark=st.booleans(),
    size=st.integers(1, 200),
)
def test_lines(tmp_path, lines, end, last, mark, size):
    path = tmp_path / "rows.jsonl"
    text = '{"first": 0}' + end + end.join(lines) + (end if last else "")
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.encode())
    parts = split([path], size)
    values = [value for part in parts for _, value in read_part(path, part)]
    assert ["not an object" if isinstance(value, list) else value for value in plain(values)] == whole(path)
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]


def test_parts_are_of_about_the_size(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 12}\n' * 100)  # 10 bytes a line
    assert split([path], 250) == [Part(0, 250 * n, 250 * n + 250) for n in range(4)]
    assert split([path], 10_000) == [Part(0)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("array.json", json.dumps([{"a": 1}] * 99).encode()),
        ("array.jsonl", json.dumps([{"a": 1}] * 99).encode()),
        ("lines.json", b'{"a": 1}\n' * 99),
        ("lines.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 99)),
        ("empty.jsonl", b""),
    ],
    # The content is no id: gzip writes the time into it, and workers of xdist must collect the same ids.
    ids=["array", "array_named_lines", "lines_named_array", "gzip", "empty"],
)
def test_what_cannot_be_divided_is_one_part(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert split([path], 10) == [Part(0)]
    assert plain(value for _, value in read_part(path, Part(0))) == whole(path)


def test_row_groups(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"a": list(range(100))}), path, row_group_size=10)
    assert split([path], 1) == [Part(0, group, group + 1) for group in range(10)]
    found = [[value["a"] for _, value in read_part(path, part)] for part in split([path], 1)]
    assert found == [list(range(10 * group, 10 * group + 10)) for group in range(10)]


def test_a_broken_parquet_file_is_one_part(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 but no more")
    assert split([path], 1) == [Part(0)]


def test_parts_know_their_file(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"a": 12}\n' * 2)
    assert split([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], 10) == [
        Part(0, 0, 10),
        Part(0, 10, 20),
        Part(1, 0, 10),
        Part(1, 10, 20),
    ]
