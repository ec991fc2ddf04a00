"""Data files of a stranger: bombs end at a stated limit, devices are not opened, offsets are not trusted."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pytest_longctx.bounded import read_bytes
from pytest_longctx.contract import load_contract
from pytest_longctx.dataset import columnar, json_text
from pytest_longctx.dataset.rows import read_file
from pytest_longctx.errors import ContractError
from pytest_longctx.evidence import BrokenLinkError, Evidence

MIB = 1 << 20


def gzip_bomb(path, size):
    """`{"text": "` and a row of blanks without end, a thousandth of its size packed."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        file.write(packer.compress(b'{"text": "'))
        for _ in range(size // MIB):
            file.write(packer.compress(b" " * MIB))
        file.write(packer.flush())
    return path


def zstd_bomb(path, size):
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as file:
        file.write(b'{"text": "')
        for _ in range(size // MIB):
            file.write(b" " * MIB)
    return path


@pytest.mark.parametrize(("suffix", "write"), [(".gz", gzip_bomb), (".zst", zstd_bomb)])
def test_a_packed_row_ends_at_the_limit(tmp_path, bounded, monkeypatch, suffix, write):
    monkeypatch.setattr(json_text, "ROW_LIMIT", 16 * MIB)
    path = write(tmp_path / f"bomb.jsonl{suffix}", 128 * MIB)
    assert path.stat().st_size < 2 * MIB
    with bounded:
        (problem,) = read_file(path, path.name)
    assert problem.kind == "row_too_long"
    assert "longer than 16,777,216 bytes" in problem.message


def test_packed_layers_are_not_unpacked_again(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(gzip.compress(b'{"text": "x"}\n')))
    (problem,) = read_file(path, path.name)
    assert problem.kind == "not_utf8"


@pytest.mark.parametrize("name", ["bomb.parquet", "bomb.arrow"])
def test_a_row_of_columns_ends_at_the_limit(tmp_path, bounded, monkeypatch, name):
    """Four texts of 24 MiB; packed in Parquet they take a few kB."""
    monkeypatch.setattr(columnar, "ROW_LIMIT", 16 * MIB)
    table, path = pa.table({"text": ["x" * (24 * MIB)] * 4}), tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(table, path, compression="zstd")
        assert path.stat().st_size < MIB
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
    (problem,) = read_file(path, path.name)
    assert problem.kind == "row_too_long"
    assert "longer than 16,777,216 bytes" in problem.message


def test_large_rows_of_columns_come_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "_BATCH_BYTES", 1000)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"{number}" * 700 for number in range(9)]}), path)
    assert [row.value["text"][0] for row in read_file(path, path.name)] == list("012345678")


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz", "a.parquet", "a.arrow"])
@pytest.mark.parametrize("target", ["/dev/zero", "/dev/random"])
def test_what_is_no_regular_file(contract, tmp_path, name, target):
    if not os.path.lexists(target):
        pytest.skip(f"there is no {target} here")
    (tmp_path / name).symlink_to(target)
    loaded = contract(dataset={"path": name})
    with pytest.raises(BrokenLinkError, match=r"is a (device|folder)|holds no file"):
        _ = Evidence(loaded).dataset


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no /proc here")
def test_a_file_that_is_regular_and_cannot_be_read(contract, tmp_path, bounded):
    (tmp_path / "a.jsonl").symlink_to("/proc/self/mem")
    data = {"path": "a.jsonl", "shape": "text"}
    evidence = Evidence(contract(dataset=data, supervision={"turns": "every_token"}))
    with bounded:
        assert evidence.measured.rejected == {"broken_file": 1}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("where", ["metrics", "record", "contract"])
def test_a_pipe_is_never_opened(contract, tmp_path, where):
    os.mkfifo(tmp_path / "pipe.json")
    if where == "contract":
        with pytest.raises(ContractError, match="expected a regular file"):
            load_contract(tmp_path / "pipe.json")
        return
    with pytest.raises(OSError, match="expected a regular file"):
        read_bytes(tmp_path / "pipe.json")


def test_files_that_are_read_whole_have_a_limit(tmp_path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 67,108,864 bytes"):
        read_bytes(path)


def test_offsets_that_lie(tmp_path):
    """The offsets of a column lead out of its buffer: nothing is read from there."""
    data, offsets = pa.py_buffer(b"abc"), pa.py_buffer(np.array([0, 1 << 30, 3], np.int32).tobytes())
    column = pa.StringArray.from_buffers(2, offsets, data)
    path = tmp_path / "lies.arrow"
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, pa.schema([("text", pa.string())])) as out,
    ):
        out.write_batch(pa.RecordBatch.from_arrays([column], ["text"]))
    (problem,) = read_file(path, path.name)
    assert problem.kind == "broken_file"


def test_a_loop_of_links_ends(contract, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "again").symlink_to(folder)
    (folder / "a.jsonl").write_text('{"text": "x"}\n')
    for pattern in ("data", "data/**/*.jsonl"):
        loaded = contract(dataset={"path": pattern, "shape": "text"}, supervision={"turns": "every_token"})
        assert len(Evidence(loaded).dataset.files) == 1


@pytest.mark.parametrize(
    "path",
    ["../" * 60 + "etc/passwd", "\x00", "a" * 5000, "data/\n.jsonl", "~root/x.jsonl", "file:///etc/passwd"],
)
def test_tricks_with_paths(contract, bounded, path):
    with bounded, pytest.raises((ContractError, BrokenLinkError)) as caught:
        _ = Evidence(contract(dataset={"path": path})).dataset
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "a: &a [*a]\n",
        "[" * 100_000,
        "a: " + "9" * 1_000_000,
        "x: [" + "1," * 100_000 + "]",
        "!!python/object/apply:os.system ['touch ran']",
        "a: !!binary AAAA",
        "? {a: b}\n: c",
        "a: " + "x" * (1 << 20),
        "%YAML " + "9" * 10_000 + ".1\n---\na: 1",
    ],
    ids=["laughs", "cycle", "deep", "digits", "long", "object", "tag", "key", "large", "version"],
)
def test_hostile_yaml(tmp_path, bounded, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text("contract: 1\n" + text)
    with bounded, pytest.raises(ContractError) as caught:
        load_contract("c.yaml")
    assert all(len(str(problem)) < 1000 for problem in caught.value.problems)
    assert len(caught.value.problems) < 20
    assert not (tmp_path / "ran").exists()


def test_a_contract_of_100_mb(tmp_path, bounded):
    path = tmp_path / "c.yaml"
    with path.open("wb") as file:
        file.truncate(100 * MIB)
    with bounded, pytest.raises(ContractError, match="larger than 1 MiB"):
        load_contract(path)
