from __future__ import annotations

import pyarrow
import pytest

from pytest_longctx.errors import LongctxError, naming, reason


def refusal():
    """What pyarrow says of a value that its column does not take: it quotes the value."""
    with pytest.raises(pyarrow.ArrowException, match="my secret") as caught:
        pyarrow.array([1, "my secret"])
    return caught.value


def test_a_reason_quotes_no_values_of_rows():
    assert reason(ValueError("why")) == "why"
    assert reason(refusal()) == "its text may quote rows, and is not shown"


def test_what_a_users_code_raises_names_it():
    found = r"^packer mine raised KeyError: 'a' \(test_errors.py:\d+\)$"
    with pytest.raises(LongctxError, match=found), naming("packer mine"):
        raise KeyError("a")
    error, found = refusal(), "^packer mine raised ArrowInvalid: its text may quote rows, and"
    with pytest.raises(LongctxError, match=found), naming("packer mine"):
        raise error
