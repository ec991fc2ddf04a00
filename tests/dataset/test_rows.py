from __future__ import annotations

import json

from pytest_longctx.dataset.rows import Row, RowProblem, read_file, read_files, with_ids


def test_rows_of_a_file(write):
    path = write("a.jsonl", '{"a": 1}\n[1]\n{"a"\n')
    rows = list(read_file(path, "a.jsonl"))
    assert rows[0] == Row("a.jsonl:1", "a.jsonl", 1, {"a": 1})
    assert rows[1] == RowProblem(
        "a.jsonl:2", "a.jsonl", 2, "not_an_object", "the row is a list; expected an object"
    )
    assert (rows[2].id, rows[2].number, rows[2].kind) == ("a.jsonl:3", 3, "broken_json")
    assert rows[2].message == "not JSON: Expecting ':' delimiter at column 5"


def test_messages_hold_no_row_text(write):
    path = write("a.jsonl", '{"a": "secret"\n"secret"\n{"secret": \xff}\n'.encode("latin-1"))
    assert not [row for row in read_file(path, "a.jsonl") if "secret" in row.message]


def test_empty_file_is_a_problem_and_the_next_file_is_read(write):
    files = [write("a.jsonl", ""), write("b.json", "[]"), write("c.jsonl", '{"c": 1}')]
    rows = list(read_files(files, ["a.jsonl", "b.json", "c.jsonl"]))
    assert rows == [
        RowProblem("a.jsonl", "a.jsonl", 0, "empty_file", "the file holds no row"),
        RowProblem("b.json", "b.json", 0, "empty_file", "the file holds no row"),
        Row("c.jsonl:1", "c.jsonl", 1, {"c": 1}),
    ]


def test_file_that_breaks_off_is_one_problem_at_the_next_row(write):
    rows = list(read_file(write("a.json", '[{"a": 1}, {"a": 2'), "a.json"))
    assert [(row.id, getattr(row, "kind", None)) for row in rows] == [
        ("a.json:1", None),
        ("a.json:2", "broken_json"),
    ]


def test_file_that_is_gone(tmp_path):
    (problem,) = read_file(tmp_path / "gone.parquet", "gone.parquet")
    assert problem.kind == "broken_file"
    assert "No such file" in problem.message


def test_ids_of_a_column(write):
    values = [
        {"uid": "x"},
        {"uid": 7},
        {"uid": "x"},
        {"uid": None},
        {"uid": 1.5},
        {"other": 1},
        {"uid": True},
    ]
    path = write("a.jsonl", "\n".join(map(json.dumps, values)))
    rows = list(with_ids(read_file(path, "a.jsonl"), "uid"))
    assert [(row.id, row.number, getattr(row, "kind", "")) for row in rows] == [
        ("x", 1, ""),
        ("7", 2, ""),
        ("x", 3, "duplicate_id"),
        ("a.jsonl:4", 4, "bad_id"),
        ("a.jsonl:5", 5, "bad_id"),
        ("a.jsonl:6", 6, "bad_id"),
        ("a.jsonl:7", 7, "bad_id"),
    ]
    assert rows[3].message == "id column 'uid' is null; expected a text or a whole number"
    assert (
        rows[5].message == "id column 'uid' is missing; the row has other; expected a text or a whole number"
    )
