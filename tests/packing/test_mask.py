from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from pytest_longctx.errors import PackingError
from pytest_longctx.packing import mask as mask_module
from pytest_longctx.packing.mask import read_dense

from .test_layout import dense

SEGMENTS = [(0, 3), (3, 4), (4, 6)]


def additive(allowed, dtype="float32"):
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    grid = torch.zeros(allowed.shape, dtype=kind)
    return grid.masked_fill(~torch.as_tensor(allowed), torch.finfo(kind).min)


def read(mask, rows=1, width=6, name=""):
    starts, ends, faults = read_dense({name: mask}, rows, width, "maker")
    return list(zip(starts.tolist(), ends.tolist(), strict=True)), tuple(fault.text for fault in faults)


@pytest.fixture(params=[1, 2, 1024], autouse=True)
def block(request, monkeypatch):
    """Masks are read in blocks of queries, whatever their size."""
    monkeypatch.setattr(mask_module, "BLOCK", request.param)
    mask_module._largest_triangle.cache_clear()


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(
    "form",
    [
        lambda allowed: allowed,
        lambda allowed: allowed.astype(np.int64),
        lambda allowed: np.where(allowed, 0.0, -np.inf),
        additive,
        lambda allowed: additive(allowed, "bfloat16"),
        lambda allowed: additive(allowed, "float16"),
    ],
    ids=["bool", "int", "infinity", "float32", "bfloat16", "float16"],
)
def test_masks_of_every_form(form, heads):
    allowed = np.repeat(dense(SEGMENTS)[None, None], heads, axis=1)
    assert read(form(allowed)) == (SEGMENTS, ())


def test_mask_without_an_axis_for_heads():
    assert read(dense(SEGMENTS)[None]) == (SEGMENTS, ())


def test_rows_have_their_own_segments_and_padding():
    allowed = np.stack([dense(SEGMENTS), dense([(0, 2), (2, 5)])])[:, None]
    assert read(allowed, rows=2) == ([*SEGMENTS, (6, 8), (8, 11)], ())


def test_one_mask_stands_for_all_rows():
    assert read(dense([(0, 6)])[None, None], rows=2) == ([(0, 6), (6, 12)], ())


def test_a_fault_of_the_mask_that_stands_for_all_rows_is_told_once():
    allowed = dense([(0, 3), (3, 6)])
    allowed[4, 0] = True
    assert read(allowed[None, None], rows=3)[1] == ("head 0: token 4 sees token 0 of another segment",)


@pytest.mark.parametrize(("seen", "own"), [([0, 1, 2, 3], []), ([4], [(4, 5)])])
def test_what_padding_sees_is_left_aside(seen, own):
    allowed = dense([(0, 4)])
    allowed[4, seen] = True
    assert read(allowed[None, None]) == ([(0, 4), *own], ())


@pytest.mark.parametrize(
    ("query", "column", "fault"),
    [
        (4, 0, "token 4 sees token 0 of another segment"),
        (5, 3, "token 5 sees token 3 of another segment"),
        (0, 1, "token 0 sees token 1, which comes after it"),
        (3, 5, "token 3 sees token 5, which comes after it"),
    ],
)
def test_a_leak_is_named(query, column, fault):
    allowed = dense(SEGMENTS)
    allowed[query, column] = True
    segments, faults = read(allowed[None, None])
    assert (segments, faults) == (SEGMENTS, (f"head 0: {fault}",))


def test_a_hidden_token_is_named():
    allowed = dense(SEGMENTS)
    allowed[2, 0] = False
    assert read(allowed[None, None])[1] == ("head 0: token 2 does not see token 0 of its own segment",)


def test_each_head_is_read():
    allowed = np.repeat(dense(SEGMENTS)[None, None], 3, axis=1)
    allowed[0, 2, 5, 0] = True
    assert read(allowed)[1] == ("head 2: token 5 sees token 0 of another segment",)


def test_the_whole_row_is_one_segment():
    assert read(np.tril(np.ones((1, 1, 6, 6), dtype=bool))) == ([(0, 6)], ())


def test_a_sliding_mask_beside_the_full_one_may_show_less_but_no_more():
    full = dense(SEGMENTS)[None, None]
    near = full & (np.subtract.outer(np.arange(6), np.arange(6)) < 2)
    starts, ends, faults = read_dense({"full_attention": full, "sliding_attention": near}, 1, 6, "maker")
    assert (list(zip(starts, ends, strict=True)), faults) == (SEGMENTS, ())
    near[0, 0, 4, 3] = True
    faults = read_dense({"full_attention": full, "sliding_attention": near}, 1, 6, "maker")[2]
    assert [fault.at for fault in faults] == [4]
    assert tuple(fault.text for fault in faults) == (
        "sliding_attention head 0: token 4 sees token 3 of another segment",
    )


@pytest.mark.parametrize("shape", [(1, 1, 6, 5), (3, 1, 6, 6), (1, 1, 7, 7), (2, 0, 6, 6)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(
        PackingError, match=r"maker: attention_mask has shape .*, expected \(2, heads, 6, 6\)"
    ):
        read(np.zeros(shape, dtype=bool), rows=2)


def test_nan_is_refused():
    allowed = np.where(dense(SEGMENTS), 0.0, -1e9)[None, None]
    allowed[0, 0, 5, 5] = np.nan
    with pytest.raises(PackingError, match="maker: attention_mask holds NaN"):
        read(allowed)


def test_a_wide_mask_is_not_copied():
    width = 2048
    allowed = np.tril(np.ones((1, 1, width, width), dtype=bool))
    mask_module._largest_triangle()
    tracemalloc.start()
    read(allowed, width=width)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < allowed.nbytes
