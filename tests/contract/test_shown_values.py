"""How a message shows a value that was refused: short, and with its kind."""

from __future__ import annotations

import pytest

from pytest_longctx.contract.messages import show


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("k" * 40, f"text {'k' * 40!r}"),
        ("k" * 41, f"text {'k' * 37!r}…"),
        ("[1]", "a list"),
        ("true", "true"),
    ],
)
def test_a_value_in_place_of_a_number(below, value, shown):
    (problem,) = below(f"window:\n  target_context_len: {value}\n")
    assert f"found {shown}" in problem


def test_a_number_is_shown_up_to_forty_digits():
    assert show(10**39) == "1" + "0" * 39
    assert show(10**60) == "1" + "0" * 39
