"""What code of a trainer may do to the process, put back."""

from __future__ import annotations

import logging
import os
import random
import warnings

import numpy as np
import pytest

from pytest_longctx.packing.undisturbed import LIBRARIES, undisturbed

from .test_undisturbed import state

torch = pytest.importorskip("torch", reason="torch is not installed")
datasets = pytest.importorskip("datasets", reason="datasets is not installed")


def test_the_environment(monkeypatch):
    monkeypatch.setenv("LONGCTX_CHANGED", "before")
    monkeypatch.setenv("LONGCTX_GONE", "before")
    monkeypatch.delenv("LONGCTX_NEW", raising=False)
    before = dict(os.environ)
    with undisturbed():
        os.environ["LONGCTX_NEW"] = os.environ["LONGCTX_CHANGED"] = "within"
        del os.environ["LONGCTX_GONE"]
    assert dict(os.environ) == before


def test_levels_of_loggers_known_and_new():
    loggers = [logging.getLogger(name) for name in (*LIBRARIES, "trl.known", "trlx", "longctx_own")]
    before = [logger.level for logger in loggers]
    with undisturbed():
        # A line of datasets quotes the row that it could not cast.
        assert not any(logging.getLogger(name).isEnabledFor(logging.CRITICAL) for name in LIBRARIES)
        new = logging.getLogger("trl.trainer.made_within")
        new.setLevel(logging.DEBUG)
        for logger in loggers[:-2]:
            logger.setLevel(logging.CRITICAL)
        for logger in loggers[-2:]:
            logger.setLevel(logging.INFO)
    assert [logger.level for logger in loggers[:-2]] == before[:-2]
    assert new.level == logging.NOTSET
    # Those of others are left alone.
    assert [logger.level for logger in loggers[-2:]] == [logging.INFO] * 2
    for logger, level in zip(loggers[-2:], before[-2:], strict=True):
        logger.setLevel(level)


@pytest.mark.parametrize("shown", [True, False])
def test_generators_types_threads_bars_and_warnings(shown):
    own = datasets.is_progress_bar_enabled()
    set_bars(shown)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    before = state()
    with undisturbed():
        random.seed(2), np.random.seed(2), torch.manual_seed(2)
        assert not datasets.is_progress_bar_enabled()
        set_bars(not shown)
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(before["threads"] + 1)
        warnings.warn("not to be heard", UserWarning, stacklevel=1)
    assert state() == before
    set_bars(own)


def test_what_is_raised_goes_on_and_all_is_put_back():
    def run():
        with undisturbed():
            torch.set_default_dtype(torch.float64)
            raise KeyError

    before = state()
    with pytest.raises(KeyError):
        run()
    assert state() == before


def set_bars(shown):
    (datasets.enable_progress_bars if shown else datasets.disable_progress_bars)()
