"""Stand-ins for `run_shard`, which processes import by name."""

from __future__ import annotations

import os
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
