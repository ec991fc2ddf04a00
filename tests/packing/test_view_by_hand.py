"""A batch beside its samples, place by place."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.packing import view as module
from pytest_longctx.packing.batch import PackedRow, read_batch
from pytest_longctx.packing.collators import padded
from pytest_longctx.packing.match import UNKNOWN, Pieces, SampleIndex
from pytest_longctx.packing.view import View, Viewer, list_names, ranges, row_edges
from pytest_longctx.testing.examples import Case, flat
from tests.packing import deliveries
from tests.packing.deliveries import sample

# Samples a, b, c of 3, 2 and 4 tokens: ids 10 … 12, 20 and 21, 30 … 33.
CASE = Case([sample(1, 2, 10), sample(1, 1, 20), sample(2, 2, 30)], names=["a", "b", "c"])


def row_of(*members):
    return deliveries.row_of(*members, rows=CASE.rows)


def ints(*numbers):
    return np.array(numbers, dtype=np.int64)


@pytest.fixture
def seen():
    """Two rows of five: a and b, then three tokens of c from its second on, and padding twice."""
    batch = read_batch(
        {"input_ids": ints(10, 11, 12, 20, 21, 31, 32, 33, 0, 0).reshape(2, 5)} | LABELS, "mine"
    )
    pieces = Pieces(ints(0, 3, 5), ints(3, 5, 8), ints(0, 1, 2), ints(0, 0, 1), np.zeros(3, np.bool_))
    return View(batch, CASE.samples, pieces, [], ints(0, 5), 7)


LABELS = {"labels": np.full((2, 5), -100)}


def test_places_and_what_stands_there(seen):
    assert seen.covered.tolist() == [True] * 8 + [False] * 2
    assert seen.padded
    assert seen.places.tolist() == list(range(8))
    assert seen.ordinals.tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
    assert seen.sources.tolist() == [0, 1, 2, 3, 4, 6, 7, 8]
    assert seen.source_labels.tolist() == [-100, 11, 12, -100, 21, -100, 32, 33]
    assert seen.starts.tolist() == [0, 3, 5]
    assert seen.on_places(np.arange(10)).tolist() == list(range(8))


def test_a_batch_without_padding():
    batch = read_batch({"input_ids": ints(10, 11, 12)[None], "labels": ints(-100, 11, 12)[None]}, "mine")
    pieces = Pieces(ints(0), ints(3), ints(0), ints(0), np.zeros(1, np.bool_))
    whole = View(batch, CASE.samples, pieces, [], ints(0), 0)
    assert not whole.padded
    assert whole.covered.all()
    foreign = view_of([7] * 300, (0, 1), (1, 300), (UNKNOWN, UNKNOWN), (0, 0))
    assert not foreign.padded


def test_unknown_pieces_have_no_places():
    batch = read_batch({"input_ids": ints(9, 9, 20, 21)[None], "labels": ints(1, 1, 1, 1)[None]}, "mine")
    pieces = Pieces(ints(0, 2), ints(2, 4), ints(UNKNOWN, 1), ints(0, 0), np.zeros(2, np.bool_))
    found = View(batch, CASE.samples, pieces, [], ints(0), 0)
    assert found.places.tolist() == [2, 3]
    assert found.ordinals.tolist() == [0, 1]
    assert found.sources.tolist() == [3, 4]
    assert found.starts.tolist() == [2]
    assert not found.padded
    assert [found.name(place) for place in range(4)] == ["(unknown)", "(unknown)", "b", "b"]


@pytest.mark.parametrize(
    ("flat", "place", "name"),
    [
        (0, (7, 0, 0), "a"),
        (2, (7, 0, 2), "a"),
        (3, (7, 1, 3), "b"),
        (4, (7, 1, 4), "b"),
        (5, (8, 0, 0), "c"),
        (7, (8, 0, 2), "c"),
        (8, (8, 0, 3), "(padding)"),
        (9, (8, 0, 4), "(padding)"),
    ],
)
def test_where_a_token_stands(seen, flat, place, name):
    assert seen.place(flat) == place
    assert seen.name(flat) == name
    witness = seen.at(flat, 1, 2, "note")
    assert (witness.row, witness.segment, witness.position) == place
    assert [witness.id, witness.expected, witness.found, witness.note] == [name, 1, 2, "note"]


def test_padding_in_front_belongs_to_nothing():
    batch = read_batch({"input_ids": ints(0, 20, 21)[None], "labels": ints(-100, -100, 21)[None]}, "mine")
    pieces = Pieces(ints(1), ints(3), ints(1), ints(0), np.zeros(1, np.bool_))
    found = View(batch, CASE.samples, pieces, [], ints(0), 0)
    assert [found.name(place) for place in range(3)] == ["(padding)", "b", "b"]
    assert found.place(0) == (0, 0, 0)
    assert found.covered.tolist() == [False, True, True]


def view_of(ids, starts, ends, samples, offsets, edges=(0,), first_row=0):
    """One row of a batch with these pieces, none of them in another order."""
    batch = read_batch({"input_ids": ints(*ids)[None], "labels": np.full((1, len(ids)), -100)}, "mine")
    columns = (ints(*column) for column in (starts, ends, samples, offsets))
    pieces = Pieces(*columns, np.zeros(len(starts), np.bool_))
    return View(batch, CASE.samples, pieces, [], ints(*edges), first_row)


def test_places_between_padding():
    """Padding in front of b, of three tokens of c from its second on, and around the last one of a."""
    found = view_of([0, 20, 21, 0, 31, 32, 33, 0, 12, 0], (1, 4, 8), (3, 7, 9), (1, 2, 0), (0, 1, 2))
    assert found.places.tolist() == [1, 2, 4, 5, 6, 8]
    assert found.ordinals.tolist() == [0, 1, 0, 1, 2, 0]
    assert found.sources.tolist() == [3, 4, 6, 7, 8, 2]
    assert found.covered.tolist() == [False, True, True, False, True, True, True, False, True, False]
    assert found.padded
    names = [found.name(place) for place in range(10)]
    assert names == ["(padding)", "b", "b", "(padding)", "c", "c", "c", "(padding)", "a", "(padding)"]
    assert found.first_in_piece(ints(0, 1, 5)) == [0, 5]
    assert found.first_in_piece(ints(1, 3, 4)) == [1, 3]


def test_where_tokens_of_a_flattened_row_stand():
    """Packed rows 3, 4 and 5 of 2, 5 and 4 tokens: the last token is padding, and nobody knows the others."""
    starts, ends = (0, 1, 2, 3, 4, 6, 7, 9), (1, 2, 3, 4, 6, 7, 9, 10)
    found = view_of(range(50, 61), starts, ends, [UNKNOWN] * 8, [0] * 8, (0, 2, 7), 3)
    assert [found.place(flat) for flat in range(2)] == [(3, 0, 0), (3, 1, 1)]
    places = [(4, 0, 0), (4, 1, 1), (4, 2, 2), (4, 2, 3), (4, 3, 4)]
    assert [found.place(flat) for flat in range(2, 7)] == places
    assert [found.place(flat) for flat in range(7, 11)] == [(5, 0, 0), (5, 0, 1), (5, 1, 2), (5, 1, 3)]
    assert [found.name(flat) for flat in (9, 10)] == ["(unknown)", "(padding)"]


def test_one_offence_a_segment(seen):
    assert seen.first_in_piece(ints(1, 2, 4, 5, 6)) == [1, 4, 5]
    assert seen.first_in_piece(ints(0, 3, 7)) == [0, 3, 7]
    assert seen.first_in_piece(ints(3, 4)) == [3]
    assert seen.first_in_piece(ints()) == []


def test_names_of_some_samples():
    samples = SimpleNamespace(ledger=SimpleNamespace(ids=list("abcdef")))
    assert list_names(samples, ints()) == ""
    assert list_names(samples, ints(2)) == "c"
    assert list_names(samples, ints(0, 1, 2)) == "a, b, c"
    assert list_names(samples, ints(0, 1, 2, 3)) == "a, b, c and 1 more"
    assert list_names(samples, ints(5, UNKNOWN, 0, 1, 2)) == "f, a, b and 2 more"
    assert list_names(samples, ints(5, UNKNOWN)) == "f and 1 more"
    assert list_names(samples, ints(*[UNKNOWN] * 4)) == ""


def test_integers_of_ranges():
    all_of = np.ones(3, np.bool_)
    assert ranges(ints(5, 0, 9), ints(7, 0, 12), all_of).tolist() == [5, 6, 9, 10, 11]
    assert ranges(ints(5, 0, 9), ints(7, 2, 12), np.array([False, True, False])).tolist() == [0, 1]
    assert ranges(ints(), ints(), np.array([], np.bool_)).tolist() == []


def packed(size):
    return PackedRow(np.zeros(size), np.zeros(size), None)


@pytest.mark.parametrize(
    ("shape", "rows", "edges"),
    [
        ((1, 6), None, [0]),
        ((3, 4), None, [0, 4, 8]),
        ((1, 6), [], [0]),
        ((1, 6), [6], [0]),
        ((1, 6), [4, 2], [0, 4]),
        ((1, 6), [1, 2, 3], [0, 1, 3]),
        ((1, 6), [4, 4, 2], [0, 4, 6]),  # more was packed than came
        ((2, 4), [4, 4], [0, 4]),
        ((2, 4), [3, 3, 2], [0, 4]),
    ],
)
def test_where_packed_rows_start(shape, rows, edges):
    batch = SimpleNamespace(rows=shape[0], width=shape[1])
    given = None if rows is None else [packed(size) for size in rows]
    found = row_edges(batch, given)
    assert found.tolist() == edges
    assert found.dtype == np.int64


def test_what_no_segment_names():
    def gaps(*pieces, shape=(2, 5)):
        starts, ends = zip(*pieces, strict=True) if pieces else ((), ())
        batch = SimpleNamespace(ids=np.zeros(shape), width=shape[1])
        return list(module._gaps(SimpleNamespace(start=ints(*starts), end=ints(*ends)), batch))

    assert gaps((0, 10)) == []
    assert gaps((0, 5), (5, 10)) == []
    assert gaps((0, 3), (5, 8)) == [(3, 5), (8, 10)]
    assert gaps((1, 3), (3, 9)) == [(0, 1), (9, 10)]
    assert gaps((0, 3), (7, 10)) == [(3, 5), (5, 7)]  # a gap over two rows is two
    assert gaps() == [(0, 5), (5, 10)]
    assert gaps(shape=(3, 4)) == [(0, 4), (4, 8), (8, 12)]
    assert gaps((0, 2), (9, 11), shape=(3, 4)) == [(2, 4), (4, 8), (8, 9), (11, 12)]
    assert gaps((0, 5), (6, 7), shape=(4, 3)) == [(5, 6), (7, 9), (9, 12)]


def test_unknown_segments_that_touch():
    def regions(*spans, width=5):
        starts, ends = zip(*spans, strict=True) if spans else ((), ())
        return module._regions(ints(*starts), ints(*ends), width)

    assert regions() == []
    assert regions((1, 3)) == [(1, 3)]
    assert regions((0, 2), (2, 4)) == [(0, 4)]
    assert regions((0, 2), (3, 4)) == [(0, 2), (3, 4)]
    assert regions((3, 5), (5, 7), (7, 8)) == [(3, 5), (5, 8)]  # not over the end of a row
    assert regions((0, 5), (5, 6), (6, 10), (10, 11), (11, 15)) == [(0, 5), (5, 10), (10, 15)]
    assert regions((0, 1), (1, 2), (2, 3), (3, 4), (5, 6)) == [(0, 4), (5, 6)]
    assert regions((4, 8), (8, 9), (9, 10), (12, 16), width=4) == [(4, 8), (8, 10), (12, 16)]


def test_padding_at_the_edges_of_rows():
    ids = np.array([[0, 0, 7, 0, 8, 0], [9, 0, 9, 9, 9, 9], [0, 0, 0, 0, 0, 0]])
    assert module._edges(ids, 0).reshape(3, 6).astype(int).tolist() == [
        [1, 1, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 1],
    ]
    assert module._edges(ids, 9).reshape(3, 6).astype(int).tolist()[1] == [1, 0, 1, 1, 1, 1]


def test_a_stretch_without_the_edges():
    edge = np.array([True, False, False, True, True])
    assert module._trimmed(0, 5, edge) == (1, 3)
    assert module._trimmed(1, 2, edge) == (1, 2)
    assert module._trimmed(2, 5, edge) == (2, 3)
    assert module._trimmed(3, 5, edge) == (3, 5)
    edge = np.array([True, True, True, True, False, True, False, False, False, True])
    assert module._trimmed(3, 10, edge) == (4, 9)
    assert module._trimmed(0, 10, edge) == (4, 9)
    assert module._trimmed(5, 9, edge) == (6, 9)
    assert module._trimmed(2, 5, edge) == (4, 5)
    assert module._trimmed(6, 10, edge) == (6, 9)


def viewer(pad_token_id=0):
    index = SampleIndex(CASE.samples, CASE.expected.lengths, CASE.capacity)
    return Viewer(CASE.samples, index, pad_token_id)


@pytest.mark.parametrize("collate", [padded, flat])
def test_segments_that_the_batch_names(collate):
    row = row_of(0, 1)
    found = viewer().view(read_batch(collate([row]), "mine"), None, 3)
    assert [found.pieces.start.tolist(), found.pieces.end.tolist()] == [[0, 3], [3, 5]]
    assert found.pieces.sample.tolist() == [0, 1]
    assert found.first_row == 3


def test_segments_that_only_the_packer_names():
    row = row_of(2, 1)
    bare = {name: np.asarray(row[name])[None] for name in ("input_ids", "labels")}
    rows = [PackedRow(row["input_ids"], row["labels"], np.array(row["seq_lengths"]))]
    found = viewer().view(read_batch(bare, "mine"), rows, 0)
    assert [found.pieces.start.tolist(), found.pieces.sample.tolist()] == [[0, 4], [2, 1]]


def test_segments_that_nobody_names_are_found_by_what_they_hold():
    row = row_of(2, 1, 0)
    bare = {name: np.asarray(row[name])[None] for name in ("input_ids", "labels")}
    found = viewer().view(read_batch(bare, "mine"), None, 0)
    assert [found.pieces.start.tolist(), found.pieces.end.tolist()] == [[0, 4, 6], [4, 6, 9]]
    assert found.pieces.sample.tolist() == [2, 1, 0]


def test_a_dialect_that_is_wrong_does_not_hide_the_samples():
    row = row_of(2, 1)
    batch = {**flat([row]), "position_ids": np.arange(6)[None]}
    for name in ("cu_seq_lens_q", "cu_seq_lens_k"):
        batch[name] = np.array([0, 3, 6], dtype=np.int32)
    found = viewer().view(read_batch(batch, "mine"), None, 0)
    assert [found.pieces.start.tolist(), found.pieces.sample.tolist()] == [[0, 4], [2, 1]]
