"""Trainers seed generators, set log levels and environment, and warn much: none of it may stay behind."""

from __future__ import annotations

import logging
import os
import random
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES = ("accelerate", "datasets", "torch", "transformers", "trl")


@contextmanager
def undisturbed() -> Iterator[None]:
    """Run a trainer's code without a word, and leave the process as it was found."""
    import datasets
    import torch

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    environment, bars = dict(os.environ), datasets.is_progress_bar_enabled()
    levels = _levels()
    threads, default = torch.get_num_threads(), torch.get_default_dtype()
    datasets.disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in LIBRARIES:
                # What goes wrong is raised besides; a line of a log may quote values of rows.
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        torch.set_num_threads(threads)
        torch.set_default_dtype(default)
        _restore(environment)
        for name, logger in _loggers().items():
            logger.setLevel(levels.get(name, logging.NOTSET))
        (datasets.enable_progress_bars if bars else datasets.disable_progress_bars)()


def _loggers() -> dict[str, logging.Logger]:
    """The libraries' loggers, those of their modules included."""
    known = logging.root.manager.loggerDict
    return {
        name: logger
        for name, logger in list(known.items())
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in LIBRARIES
    }


def _levels() -> dict[str, int]:
    return {name: logger.level for name, logger in _loggers().items()}


def _restore(environment: dict[str, str]) -> None:
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
