"""Stand-ins for `run_shard`, which processes import by name."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pytest_longctx.engine.shard import Done


def dies(job, part):
    """Ends the process on the part that starts at 20, as an out-of-memory killer does."""
    if part.start == 20:
        os._exit(9)
    return Done(part, rows=1)


def dies_once(job, part):
    """Ends the process the first time that it comes to that part."""
    mark = Path(job.store) / "died"
    if part.start == 20 and not mark.exists():
        mark.touch()
        os._exit(9)
    return Done(part, rows=1)


def raises(job, part):
    """A fault of the engine on that part."""
    if part.start == 20:
        raise RuntimeError("a fault")
    return Done(part, rows=1)


def hangs(job, part):
    """Never ends on that part."""
    if part.start == 20:
        threading.Event().wait()
    return Done(part, rows=1)


def measures(job, part):
    """Takes a moment, so that a node leaves in the middle of work."""
    threading.Event().wait(0.3)
    return Done(part, rows=1)
