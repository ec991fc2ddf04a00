"""A short fuzzing in every run: the seeds, and seeds that were damaged at random."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

SEEDS = Path(__file__).parent / "seeds"


def seeds(name):
    return [path.read_bytes() for path in sorted((SEEDS / name).iterdir())]


@pytest.mark.parametrize(
    "path", sorted(SEEDS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_seeds(path):
    TARGETS[path.parent.name](path.read_bytes())


@st.composite
def damaged(draw, name):
    """A seed, cut and joined with others, some of its bytes replaced."""
    data = bytearray(draw(st.sampled_from(seeds(name))))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 8))
        new = draw(st.one_of(st.binary(max_size=8), st.sampled_from(seeds(name)).map(lambda seed: seed[:64])))
        data[place : place + length] = new
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_seeds(name):
    @settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck), database=None)
    @given(damaged(name))
    def run(data):
        TARGETS[name](data)

    run()


@pytest.mark.parametrize("name", TARGETS)
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.binary(max_size=300))
def test_any_bytes(name, data):
    TARGETS[name](data)
