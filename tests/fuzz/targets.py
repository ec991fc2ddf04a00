"""What is fuzzed: each target takes any bytes, and raises only when the package does what it must not.

A target is run by `drive.py` with atheris for as long as one likes, and by `test_fuzz.py` for a moment.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.contract import dump, load_contract
from pytest_longctx.dataset.conversation import Conversation
from pytest_longctx.dataset.fault import RowError
from pytest_longctx.dataset.rows import Row, RowProblem, read_file
from pytest_longctx.dataset.shapes import SHAPES
from pytest_longctx.errors import ContractError, PackingError
from pytest_longctx.packing.batch import read_batch
from pytest_longctx.packing.layout import layouts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_longctx.errors import Problem

MOST_PROBLEMS = 2000
_FOLDER = Path(tempfile.mkdtemp(prefix="longctx-fuzz-"))
_SUFFIXES = (".jsonl", ".json", ".parquet", ".arrow", ".jsonl.gz", ".json.zst")
_DTYPES = (np.int8, np.int32, np.int64, np.uint8, np.float32, np.float64, np.bool_, np.uint64)
_FIELDS = (
    "labels",
    "position_ids",
    "seq_idx",
    "attention_mask",
    "cu_seq_lens_q",
    "cu_seq_lens_k",
    "max_length_q",
    "max_length_k",
    "seq_lengths",
    "token_type_ids",
)


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def _sound(problems: Sequence[Problem], data: bytes) -> None:
    """Problems at places of the file, each on one line of print."""
    text = data.decode(errors="replace")
    lines = 2 + sum(text.count(sign) for sign in "\n\r\x85\u2028\u2029")
    _must(0 < len(problems) < MOST_PROBLEMS, f"{len(problems)} problems")
    for problem in problems:
        _must(1 <= problem.line <= lines and problem.column >= 1, f"no such place: {problem!r}")
        _must(str(problem).isprintable(), repr(str(problem)))


def contract(data: bytes) -> None:
    """Any bytes are a contract, or problems at places of the file that print on one line."""
    path = _FOLDER / "c.yaml"
    path.write_bytes(data)
    try:
        loaded = load_contract(path)
    except ContractError as error:
        _sound(error.problems, data)
        return
    path.write_text(dump(loaded), encoding="utf-8")
    assert load_contract(path).model_dump() == loaded.model_dump()


def rows(data: bytes) -> None:
    """Any file gives rows and problems, numbered upward; every row becomes fields of a shape, or a fault."""
    if not data:
        return
    path = _FOLDER / f"a{_SUFFIXES[data[0] % len(_SUFFIXES)]}"
    path.write_bytes(data[1:])
    last = 0
    for row in read_file(path, path.name):
        assert row.number >= last
        last = row.number
        if isinstance(row, RowProblem):
            assert row.message
            assert len(row.message) < 2000
            continue
        assert isinstance(row, Row)
        for shape in SHAPES.values():
            try:
                Conversation(row.id, row.file, row.number, **shape.convert(row.value))
            except RowError as fault:
                _must(bool(fault.message), "a fault says what it is")


def layout(data: bytes) -> None:
    """Any fields of a batch give layouts whose segments lie in their rows, or one error with a message."""
    if len(data) < 3:
        return
    count, width = 1 + data[0] % 3, 1 + data[1] % 7
    fields = {"input_ids": np.arange(count * width).reshape(count, width)}
    rest = data[2:]
    while len(rest) >= 4:
        name, dtype, shape, size = (
            _FIELDS[rest[0] % len(_FIELDS)],
            _DTYPES[rest[1] % len(_DTYPES)],
            *rest[2:4],
        )
        chunk, rest = rest[4 : 4 + size % 64], rest[4 + size % 64 :]
        fields[name] = _array(chunk, dtype, shape, count, width)
    if "labels" not in fields:
        fields["labels"] = fields["input_ids"]
    try:
        found = layouts(read_batch(fields, "fuzz"))
    except PackingError as error:
        _must(bool(str(error)), "an error says what it is")
        return
    for each in found:
        assert ((each.start >= 0) & (each.start < each.end)).all()
        assert (each.end <= width).all()
        assert ((each.row >= 0) & (each.row < count)).all()
        json.dumps([str(fault) for fault in each.faults])


def _array(chunk: bytes, dtype: type, shape: int, count: int, width: int) -> object:
    with np.errstate(all="ignore"):
        flat = np.frombuffer(chunk, np.int8).astype(dtype)
    whole = np.resize(flat, count * width) if len(flat) else np.zeros(count * width, dtype)
    choices: tuple[object, ...] = (
        flat,
        whole.reshape(count, width),
        np.resize(whole, count * width * width).reshape(count, 1, width, width),
        [flat.tolist()] * count,
        flat.tolist(),
        int(flat[0]) if len(flat) and np.isfinite(flat[0]) else None,
        whole.reshape(1, -1),
        whole.reshape(count, width).tolist(),
    )
    return choices[shape % len(choices)]


TARGETS: dict[str, Callable[[bytes], None]] = {"contract": contract, "rows": rows, "layout": layout}
