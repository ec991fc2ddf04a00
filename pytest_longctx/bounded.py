"""Files named by a contract are read whole only when they are regular and no larger than they may be."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1 << 26


def read_bytes(path: Path, most: int = MAX_BYTES) -> bytes:
    """The content of a regular file of at most `most` bytes.

    Raises:
        OSError: it cannot be read, is a pipe or a device, which may never end, or is larger.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "found a folder, device, pipe or socket, expected a regular file")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(0, f"the file is larger than {most:,} bytes")
    return content
