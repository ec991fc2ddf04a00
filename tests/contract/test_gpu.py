"""Rules of the `gpu` section."""

from __future__ import annotations


def test_a_sample_to_pack_has_a_target(below):
    assert (
        "4:35: gpu.packing_sample_lengths.1: found 1, expected at least 2: one token alone is never a target"
        in below("gpu: {packing_sample_lengths: [5, 1]}")
    )
