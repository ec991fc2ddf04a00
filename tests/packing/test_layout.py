from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing.batch import Fault, read_batch
from pytest_longctx.packing.layout import layouts


def arrays(fields, kind):
    if kind == "numpy":
        return {name: np.asarray(value) for name, value in fields.items()}
    torch = pytest.importorskip("torch")
    return {name: torch.as_tensor(np.asarray(value)) for name, value in fields.items()}


def read(fields, rows=1, width=6, kind="numpy"):
    ids = np.arange(1, rows * width + 1).reshape(rows, width)
    return layouts(read_batch(arrays({"input_ids": ids, "labels": ids, **fields}, kind), "maker"))


def spans(layout):
    return list(zip(layout.row.tolist(), layout.start.tolist(), layout.end.tolist(), strict=True))


def dense(segments, width=6):
    """bool[T, T] by the definition: i sees j of the same segment with j ≤ i."""
    number = np.zeros(width, dtype=int)
    for place, (start, end) in enumerate(segments, 1):
        number[start:end] = place
    return np.array([[number[i] == number[j] > 0 and j <= i for j in range(width)] for i in range(width)])


ONE_ROW = [(0, 3), (3, 4), (4, 6)]
FIELDS = {
    "position_ids": {"position_ids": [[0, 1, 2, 0, 0, 1]]},
    "cu_seq_lens": {"cu_seq_lens_q": [0, 3, 4, 6], "cu_seq_lens_k": [0, 3, 4, 6]},
    "seq_idx": {"seq_idx": [[0, 0, 0, 1, 2, 2]]},
    "segment_mask": {"attention_mask": [[1, 1, 1, 2, 3, 3]]},
    "block_mask": {"attention_mask": dense(ONE_ROW)[None, None]},
    "seq_lengths": {"seq_lengths": [[3, 1, 2]]},
}


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dialect", FIELDS)
def test_every_dialect_gives_the_same_layout(dialect, kind, dtype):
    fields = {
        name: np.asarray(value) if np.asarray(value).dtype == bool else np.asarray(value, dtype=dtype)
        for name, value in FIELDS[dialect].items()
    }
    (layout,) = read(fields, kind=kind)
    assert (layout.dialect, spans(layout), layout.faults) == (dialect, [(0, a, b) for a, b in ONE_ROW], ())
    assert layout.names_segments


@pytest.mark.parametrize(
    "segments",
    [[(0, 1), (1, 6)], [(0, 5), (5, 6)], [(0, 1), (1, 2), (2, 6)], [(0, 6)], [(i, i + 1) for i in range(6)]],
)
def test_segments_of_one_token_anywhere(segments):
    lengths = [end - start for start, end in segments]
    fields = {
        "position_ids": [np.concatenate([np.arange(length) for length in lengths])],
        "cu_seq_lens_q": np.append(0, np.cumsum(lengths)),
        "seq_idx": [np.repeat(np.arange(len(lengths)), lengths)],
        "attention_mask": dense(segments)[None, None],
        "seq_lengths": [lengths],
    }
    found = read(fields)
    assert len(found) == 5
    assert [spans(layout) for layout in found] == [[(0, a, b) for a, b in segments]] * 5


@pytest.mark.parametrize(
    ("tail", "expected"),
    [([0, 0], [(4, 5), (5, 6)]), ([0, 1], [(4, 6)]), ([2, 3], [])],
    ids=["constant", "anew", "on"],
)
def test_positions_of_padding(tail, expected):
    (layout,) = read({"position_ids": [[0, 1, 0, 1, *tail]]})
    last = 6 if not expected else 4
    assert spans(layout) == [(0, 0, 2), (0, 2, last), *((0, a, b) for a, b in expected)]


def test_two_rows_with_padding():
    fields = {
        "position_ids": [[0, 1, 0, 1, 2, 0], [0, 1, 2, 3, 0, 0]],
        "attention_mask": [[1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 0, 0]],
        "seq_idx": [[0, 0, 1, 1, 1, -1], [0, 0, 0, 0, -1, -1]],
        "seq_lengths": [[2, 3], [4, 0]],
    }
    found = {layout.dialect: spans(layout) for layout in read(fields, rows=2)}
    told = [(0, 0, 2), (0, 2, 5), (1, 0, 4)]
    assert found.pop("position_ids") == sorted([*told, (0, 5, 6), (1, 4, 5), (1, 5, 6)])
    assert found == {"segment_mask": told, "seq_idx": told, "seq_lengths": told}


def test_borders_of_a_batch_of_rows_run_through_all_rows():
    (layout,) = read({"cu_seq_lens_q": np.array([0, 6, 8, 12], dtype=np.int32)}, rows=2)
    assert spans(layout) == [(0, 0, 6), (1, 0, 2), (1, 2, 6)]


@pytest.mark.parametrize("dtype", [bool, int, float])
def test_padding_mask_names_no_segments(dtype):
    (layout,) = read({"attention_mask": np.array([[1, 1, 1, 1, 0, 0]], dtype=dtype)})
    assert (layout.dialect, layout.names_segments, spans(layout)) == ("padding_mask", False, [(0, 0, 4)])


def test_left_padding():
    (layout,) = read({"attention_mask": [[0, 0, 1, 1, 2, 2]]})
    assert spans(layout) == [(0, 2, 4), (0, 4, 6)]


def test_one_row_of_positions_stands_for_all_rows():
    (layout,) = read({"position_ids": [0, 1, 2, 0, 1, 2]}, rows=2)
    assert spans(layout) == [(0, 0, 3), (0, 3, 6), (1, 0, 3), (1, 3, 6)]


def test_fields_of_another_length_are_not_read():
    assert read({"position_ids": [[0, 1, 2]], "seq_idx": [[0] * 7], "attention_mask": [[1] * 8]}) == []


@pytest.mark.parametrize(
    ("borders", "faults"),
    [
        ([0, 3, 6], ()),
        ([0, 3, 5], ("ends at 5, expected 6 tokens",)),
        ([1, 3, 6], ("starts at 1, expected 0",)),
        ([0, 3, 3, 6], ("does not grow strictly",)),
        ([0], ("has 1 entries, expected a start and an end at least",)),
    ],
)
def test_faults_of_borders(borders, faults):
    (layout,) = read({"cu_seq_lens_q": borders})
    assert layout.faults == tuple(map(Fault, faults))


def test_lengths_that_exceed_the_row_are_a_fault():
    (layout,) = read({"seq_lengths": [[4, 4]]})
    assert layout.faults == (("lengths add up to 8, more than 6 tokens", 0),)
    assert spans(layout) == [(0, 0, 4), (0, 4, 6)]


def test_lengths_that_are_a_number_are_refused():
    with pytest.raises(PackingError, match="maker: seq_lengths is a int, expected the lengths of each row"):
        layouts(read_batch({"input_ids": [[1, 2]], "labels": [[1, 2]], "seq_lengths": 2}, "maker"))


def test_nan_in_a_mask_is_refused():
    with pytest.raises(PackingError, match="maker: attention_mask holds NaN"):
        read({"attention_mask": [[1.0, 1.0, 1.0, np.nan, 0.0, 0.0]]})
