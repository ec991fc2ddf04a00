from __future__ import annotations

import logging
import os
import random
import warnings

import numpy as np
import pytest

from .conftest import example_rows, failing

pytest.importorskip("trl")


def state():
    import datasets
    import torch
    import transformers

    return {
        "random": random.getstate(),
        "numpy": str(np.random.get_state()),
        "torch": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "warnings": list(warnings.filters),
        "environment": dict(os.environ),
        "levels": {
            name: logging.getLogger(name).level for name in ("transformers", "trl", "datasets", "accelerate")
        },
        "verbosity": transformers.logging.get_verbosity(),
        "bars": datasets.is_progress_bar_enabled(),
    }


def sft(**config):
    settings = {"assistant_only_loss": True, "max_length": 1024, "packing": True, "seed": 7, **config}
    return {"max_tokens_per_bin": 1024, "trainer": {"name": "trl_sft", "config": settings}}


def test_a_trainer_leaves_nothing_behind(make_evidence, capfd):
    evidence = make_evidence(example_rows("support", 6), sft(log_level="debug"), 1024)
    assert evidence.measured.rows == 6
    before = state()
    assert failing(evidence) == set()
    assert state() == before
    assert capfd.readouterr() == ("", "")


def test_a_trainer_that_fails_leaves_nothing_behind(make_evidence):
    evidence = make_evidence(example_rows("support", 6), sft(max_length=None), 1024)
    assert evidence.measured.rows == 6
    before = state()
    with pytest.raises(Exception, match="`max_length` can't be `None`"):
        _ = evidence.audit
    assert state() == before


def test_folders_go_with_the_evidence(make_evidence, tmp_path, monkeypatch):
    import tempfile

    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    evidence = make_evidence(example_rows("support", 6), sft(), 1024)
    assert failing(evidence) == set()
    assert list(folder.glob("longctx-*"))
    del evidence
    import gc

    gc.collect()
    assert not list(folder.glob("longctx-*"))
