from __future__ import annotations

import codecs
import gzip
import json
import math

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.dataset import json_text
from pytest_longctx.dataset.fault import RowError
from pytest_longctx.dataset.json_text import parse, read_json

SETTINGS = settings(deadline=None, max_examples=40)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | KEYS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
ROWS = st.lists(st.dictionaries(KEYS, VALUES, max_size=4), max_size=8)


def read(path):
    """Numbers with values, or with the kind of the fault; the last one may end the file."""
    found = []
    try:
        for number, value in read_json(path):
            found.append((number, value.kind if isinstance(value, RowError) else value))
    except RowError as fault:
        found.append(("end", fault.kind))
    return found


def numbered(*values):
    return list(enumerate(values, 1))


def same(left, right):
    """Equality that tells 1 from 1.0 and True, and sees the order of keys."""
    return json.dumps(left) == json.dumps(right)


@SETTINGS
@given(rows=ROWS)
def test_rows_come_back_exactly(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    contents = {
        "a.jsonl": lines,
        "b.jsonl.gz": gzip.compress(lines),
        "c.ndjson.zst": zstandard.compress(lines),
        "d.json": json.dumps(rows).encode(),
        "e.json": json.dumps(rows, indent=2, ensure_ascii=False).encode(),
        "f.json": lines,
        "g.json.gz": gzip.compress("\n".join(json.dumps(row, indent=1) for row in rows).encode()),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        assert same(read(folder / name), numbered(*rows)), name


@SETTINGS
@given(data=st.binary(max_size=60), name=st.sampled_from(["a.jsonl", "a.json", "a.jsonl.gz", "a.json.zst"]))
def test_random_bytes_give_values_or_faults(tmp_path_factory, data, name):
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(data)
    read(path)


@SETTINGS
@given(
    rows=ROWS,
    cut=st.integers(0, 200),
    name=st.sampled_from(["a.jsonl", "a.json"]),
    byte=st.integers(0, 255),
)
def test_damaged_json_gives_values_or_faults(tmp_path_factory, rows, cut, name, byte):
    data = bytearray(
        json.dumps(rows).encode()
        if name == "a.json"
        else b"\n".join(json.dumps(row).encode() for row in rows)
    )
    if data:
        data[cut % len(data)] = byte
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(data)
    read(path)


@pytest.mark.parametrize("chunk", [2, 3, 7])
def test_array_is_read_in_pieces_of_any_size(tmp_path, monkeypatch, chunk):
    rows = [{"text": 'é😀 \\ "', "n": [12345, -1.5e-7, True, None]}, {}, {"a": {"b": []}}]
    path = tmp_path / "a.json"
    path.write_bytes(json.dumps(rows, ensure_ascii=False, indent=1).encode())
    monkeypatch.setattr(json_text, "_CHUNK", chunk)
    assert same(read(path), numbered(*rows))


def test_broken_line_among_ten_thousand(write):
    lines = [json.dumps({"n": number}) for number in range(1, 10_001)]
    lines[5_002] = '{"n": 5003, "text": "cut'
    found = read(write("a.jsonl", "\n".join(lines)))
    assert len(found) == 10_000
    assert found[5_002] == (5_003, "broken_json")
    assert [value["n"] for number, value in found if number != 5_003] == [
        n for n in range(1, 10_001) if n != 5_003
    ]


def test_blank_lines_are_no_rows_but_count_as_lines(write):
    assert read(write("a.jsonl", '\n{"a": 1}\r\n  \t\n{"b": 2}')) == [(2, {"a": 1}), (4, {"b": 2})]
    assert read(write("b.json", '\n{"a": 1}\n\n{"b": 2}\n')) == [(1, {"a": 1}), (2, {"b": 2})]


@pytest.mark.parametrize(
    "number", ["18446744073709551616", "-9223372036854775809", "1" + "0" * 40, "18446744073709551615"]
)
def test_whole_numbers_of_any_size_are_exact(number):
    assert parse(f'{{"n": {number}}}'.encode()) == {"n": int(number)}
    assert type(parse(f'{{"n": {number}}}'.encode())["n"]) is int


def test_not_a_number_is_read_as_python_does():
    value = parse(b'{"a": NaN, "b": -Infinity, "c": 1e999}')
    assert math.isnan(value["a"])
    assert (value["b"], value["c"]) == (-math.inf, math.inf)


def test_number_of_thousands_of_digits_is_a_fault():
    assert parse(b"1" * 5_000).message == "holds a number with thousands of digits"


def test_deep_nesting_is_a_fault(write):
    deep = "[" * 100_000 + "]" * 100_000
    assert parse(deep.encode()).message == "nested too deeply"
    assert read(write("a.json", f'[{{"a": {deep}}}, {{}}]')) == [("end", "broken_json")]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_half_of_a_surrogate_pair_is_a_fault_and_a_whole_pair_is_not(write, name):
    rows = [r'{"a": "\ud83d"}', r'{"a": "\ud83d\ude00"}', r'{"a": "\\ud83d"}']
    text = "\n".join(rows) if name == "a.jsonl" else "[" + ",".join(rows) + "]"
    assert read(write(name, text)) == [(1, "half_surrogate"), (2, {"a": "😀"}), (3, {"a": r"\ud83d"})]


def test_line_that_is_not_utf8_is_named_and_passed(write):
    path = write("a.jsonl", b'{"a": 1}\n{"a": "\xe9"}\n{"a": 3}\n')
    assert read(path) == [(1, {"a": 1}), (2, "not_utf8"), (3, {"a": 3})]
    assert parse(b'{"a": "\xe9"}').message == "not UTF-8: byte 0xe9 at place 8; save it as UTF-8"


def test_array_that_is_not_utf8_ends_there(write):
    assert read(write("a.json", b'[{"a": "\xe9"}]')) == [("end", "not_utf8")]


def test_byte_order_marks(write):
    assert read(write("a.jsonl", codecs.BOM_UTF8 + b'{"a": 1}')) == [(1, {"a": 1})]
    assert read(write("b.json", codecs.BOM_UTF8 + b'[{"a": 1}]')) == [(1, {"a": 1})]
    assert read(write("c.jsonl", '{"a": 1}'.encode("utf-16"))) == [("end", "not_utf8")]


def test_array_in_a_jsonl_file_is_read(write):
    assert read(write("a.jsonl", '[\n{"a": 1},\n{"a": 2}\n]\n')) == numbered({"a": 1}, {"a": 2})


def test_rows_that_are_arrays_in_a_jsonl_file_stay_rows(write):
    assert read(write("a.jsonl", '[1, 2]\n{"a": 1}\n')) == numbered([1, 2], {"a": 1})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[]", []),
        (" [ ] \n", []),
        ("", []),
        ("[", [("end", "broken_json")]),
        ('[{"a": 1}', [(1, {"a": 1}), ("end", "broken_json")]),
        ('[{"a": 1},]', [(1, {"a": 1}), ("end", "broken_json")]),
        ('[{"a": 1} {"a": 2}]', [(1, {"a": 1}), ("end", "broken_json")]),
        ('[{"a": 1}] x', [(1, {"a": 1}), ("end", "broken_json")]),
        ('[{"a": "unclosed}, {"b": 1}]', [("end", "broken_json")]),
        ("[12, 34]", [(1, 12), (2, 34)]),
        ('{"a": 1}{"b": 2}', [(1, {"a": 1}), (2, {"b": 2})]),
        ('{"a": \n1}\n{"b" 2}\n{"c": 3}', [(1, {"a": 1}), (2, "broken_json"), (3, {"c": 3})]),
    ],
)
def test_json_texts(write, text, found):
    assert read(write("a.json", text)) == found


def test_several_frames_and_members(tmp_path):
    (tmp_path / "a.jsonl.zst").write_bytes(
        zstandard.compress(b'{"a": 1}\n') + zstandard.compress(b'{"a": 2}\n')
    )
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n') + gzip.compress(b'{"a": 2}\n'))
    for name in ("a.jsonl.zst", "a.jsonl.gz"):
        assert read(tmp_path / name) == numbered({"a": 1}, {"a": 2})


@pytest.mark.parametrize(
    ("name", "compress"), [("a.jsonl.gz", gzip.compress), ("a.jsonl.zst", zstandard.compress)]
)
def test_compressed_file_that_was_cut_is_told(tmp_path, name, compress):
    whole = compress(b"".join(b'{"n": %d}\n' % (number * 7919 % 104729) for number in range(5_000)))
    (tmp_path / name).write_bytes(whole[:-20])
    assert read(tmp_path / name)[-1] == ("end", "broken_file")


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.zst"])
def test_decompression_bomb_ends_at_the_row_limit(tmp_path, monkeypatch, name):
    monkeypatch.setattr(json_text, "ROW_LIMIT", 1_000_000)
    bomb = b'[{"a": "' + b"x" * 50_000_000
    (tmp_path / name).write_bytes(gzip.compress(bomb, 1) if name.endswith("gz") else zstandard.compress(bomb))
    before = pa.total_allocated_bytes()
    assert read(tmp_path / name) == [("end", "row_too_long")]
    assert pa.total_allocated_bytes() - before < 5_000_000
