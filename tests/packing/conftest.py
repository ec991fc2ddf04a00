from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_longctx.packing import block
from pytest_longctx.packing.audit import audit
from pytest_longctx.packing.proof import Prover


@pytest.fixture(params=["proven together", "proven one by one", "looked at"])
def judged(request, monkeypatch):
    """A function: the audit of some deliveries, in each way in which batches are judged."""
    if request.param == "looked at":
        monkeypatch.setattr(Prover, "able", False)
    if request.param == "proven one by one":
        monkeypatch.setattr(block, "LARGE", 0)
    return lambda *deliveries, case, **keys: audit(
        deliveries, case.samples, replace(case.expected, **keys), "mine"
    )
