"""Where rows are measured: in this process, in several, or on a Ray cluster.

All do the same work by parts of the files, and leave the entries in one store; the pass over the rows then
finds them there. So ids, order, findings and messages come from one and the same pass wherever entries were
made, and verdicts are the same.
"""

from __future__ import annotations

from pytest_longctx.engine.division import jobs_of, shards_of
from pytest_longctx.engine.known import known_entries
from pytest_longctx.engine.share import measure_share

__all__ = ["jobs_of", "known_entries", "measure_share", "shards_of"]
