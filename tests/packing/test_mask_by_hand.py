"""Dense masks put down by hand: which segments they show, and which of their faults is told, and where."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing.mask import read_dense

WIDTH = 6


def causal(*sizes):
    """bool[6, 6], segments of these sizes, each token before or at its place in its own."""
    mask = np.zeros((WIDTH, WIDTH), dtype=np.bool_)
    at = 0
    for size in sizes:
        mask[at : at + size, at : at + size] = np.tri(size, dtype=np.bool_)
        at += size
    return mask


def but(mask, *places):
    changed = mask.copy()
    for place in places:
        changed[place] = not changed[place]
    return changed


def read(*rows, rows_in_all=None, **others):
    """Rows of heads each; others: further masks by name, of the same form."""
    masks = {"": np.array(rows), **{name: np.array(mask) for name, mask in others.items()}}
    starts, ends, faults = read_dense(masks, rows_in_all or len(rows), WIDTH, "mine")
    return starts.tolist(), ends.tolist(), [tuple(fault) for fault in faults]


def test_a_fault_is_placed_in_its_row_of_the_batch():
    leaking = but(causal(3, 3), (3, 1))
    assert read([causal(3, 3)], [leaking]) == (
        [0, 3, 6, 9],
        [3, 6, 9, 12],
        [("head 0: token 3 sees token 1 of another segment", WIDTH + 3)],
    )


def test_of_several_faults_the_first_is_told():
    leaks = but(causal(3, 3), (4, 0), (5, 2))
    assert read([leaks])[2] == [("head 0: token 4 sees token 0 of another segment", 4)]
    gaps = but(causal(6), (3, 1), (5, 2))
    assert read([gaps])[2] == [("head 0: token 3 does not see token 1 of its own segment", 3)]


def test_the_first_head_names_the_segments():
    assert read([causal(3, 3), causal(6)]) == (
        [0, 3],
        [3, 6],
        [("head 1: token 3 sees token 0 of another segment", 3)],
    )


def test_a_mask_for_all_rows_is_at_fault_once():
    heads = [causal(3, 3), but(causal(3, 3), (4, 0))]
    found = read(heads, rows_in_all=3)
    assert found[2] == [("head 1: token 4 sees token 0 of another segment", 4)]


def test_another_mask_may_show_less_and_nothing_that_comes_after():
    assert read([causal(6)], sliding=[[but(causal(6), (5, 0))]])[2] == []
    ahead = but(causal(6), (2, 4))
    assert read([causal(6)], sliding=[[ahead]])[2] == [
        ("sliding head 0: token 2 sees token 4, which comes after it", 2)
    ]


@pytest.mark.parametrize(
    ("low", "seen"), [(-0.5, True), (-10, True), (-999, True), (-1000, False), (-1e9, False)]
)
def test_an_additive_mask_hides_what_the_softmax_makes_zero(low, seen):
    mask = np.where(causal(6), 0.0, -1e9)
    mask[3, 2] = low
    starts, _, _ = read([mask])
    assert starts == ([0] if seen else [0, 3])


def test_a_token_behind_padding_that_it_sees_starts_a_segment():
    mask = but(causal(6), (1, 1))
    assert read([mask])[0] == [0, 2]
