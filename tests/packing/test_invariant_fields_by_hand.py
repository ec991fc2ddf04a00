"""What is told of varlen arguments and of shapes, of views of a few tokens, put by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing.batch import VARLEN
from pytest_longctx.packing.invariants import aligned_fields, varlen_fields
from tests.packing.views import told, view_of

EDGES = np.array([0, 3, 5, 9], np.int32)
RIGHT = dict(zip(VARLEN, (EDGES, EDGES, 4, 4), strict=True))


class TestVarlen:
    def test_all_or_none(self):
        assert list(varlen_fields(view_of())) == list(varlen_fields(view_of(**RIGHT))) == []
        assert list(varlen_fields(view_of(**dict.fromkeys(VARLEN)))) == []

    @pytest.mark.parametrize("missing", VARLEN)
    def test_one_is_missing(self, missing):
        expected = "all four varlen arguments, or none"
        wanted = [(missing, 7, None, None, expected, "missing")]
        assert told(varlen_fields(view_of(**{**RIGHT, missing: None}))) == wanted

    def test_three_are_missing(self):
        found = varlen_fields(view_of(max_length_k=4))
        assert [one.id for one in found] == ["cu_seq_lens_q", "cu_seq_lens_k", "max_length_q"]

    @pytest.mark.parametrize(
        ("name", "value", "expected", "found"),
        [
            ("cu_seq_lens_q", EDGES.astype(np.int64), "int32", "int64"),
            ("cu_seq_lens_k", EDGES.astype(np.float32), "int32", "float32"),
            ("max_length_q", 4.0, "a plain int", "float"),
            ("max_length_k", np.int32(4), "a plain int", "int32"),
            ("max_length_q", True, "a plain int", "bool"),
            ("max_length_k", 3, 4, 3),
            ("max_length_q", 0, 4, 0),
        ],
    )
    def test_of_another_type_or_too_short(self, name, value, expected, found):
        wanted = [(name, 7, None, None, expected, found)]
        assert told(varlen_fields(view_of(**{**RIGHT, name: value}))) == wanted

    def test_longer_ones_hold_the_segments_as_well(self):
        assert list(varlen_fields(view_of(**{**RIGHT, "max_length_q": 5, "max_length_k": 10**6}))) == []

    @pytest.mark.parametrize(("longest", "said"), [(0, []), (-1, [(0, -1)])])
    def test_of_padding_alone(self, longest, said):
        view = view_of(pieces=[], **{**RIGHT, "max_length_q": longest})
        assert [(one.expected, one.found) for one in varlen_fields(view)] == said


class TestShapes:
    @pytest.mark.parametrize("name", ["position_ids", "seq_idx", "attention_mask", "token_type_ids"])
    @pytest.mark.parametrize(
        ("shape", "fits"),
        [
            ((2, 5), True),
            ((1, 5), True),  # one row for all
            ((5,), True),
            ((3, 2, 5), True),  # planes
            ((3, 1, 5), True),
            ((2, 4), False),
            ((2, 6), False),
            ((2, 1), False),
            ((3, 5), False),
            ((10,), False),
            ((), False),
            ((3, 3, 5), False),
            ((1, 1, 2, 5), False),
            ((0, 5), False),
            ((0, 2, 5), False),
            ((1, 1, 1, 5, 5), False),
        ],
    )
    def test_of_what_has_one_entry_a_token(self, name, shape, fits):
        if name == "attention_mask" and len(shape) in (3, 4):
            return  # a dense mask
        found = told(aligned_fields(view_of(**{name: np.zeros(shape, np.int64)})))
        assert found == [(name, 7, None, None, "(2, 5)", str(shape))] * (not fits)

    @pytest.mark.parametrize("shape", [(1, 5), (3, 5), (2, 4), (2, 6)])
    def test_of_labels(self, shape):
        found = told(aligned_fields(view_of(labels=np.full(shape, -100))))
        assert found == [("labels", 7, None, None, "(2, 5)", str(shape))]

    def test_each_field_is_looked_at(self):
        masks = {"attention_mask": np.ones((2, 4), int), "position_ids": np.zeros((2, 5), int)}
        assert [one.id for one in aligned_fields(view_of(**masks))] == ["attention_mask"]
        names = ("labels", "seq_idx", "token_type_ids")
        found = aligned_fields(view_of(**dict.fromkeys(names, np.zeros((2, 4), int))))
        assert [one.id for one in found] == list(names)

    @pytest.mark.parametrize("shape", [(2, 5, 5), (1, 5, 5), (2, 1, 5, 5), (1, 3, 5, 5)])
    def test_dense_masks_have_their_own(self, shape):
        mask = np.broadcast_to(np.tri(5, dtype=bool), shape)
        for form in (mask, mask.tolist(), {"full_attention": mask}):
            found = aligned_fields(view_of(attention_mask=form, token_type_ids=np.zeros((2, 4))))
            assert [one.id for one in found] == ["token_type_ids"]
