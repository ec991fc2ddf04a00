"""What can be wrong with a GPU measurement before anything is measured."""

from __future__ import annotations

from pytest_longctx.errors import LongctxError


class GpuError(LongctxError):
    """The measurement cannot be run as it was asked for; never a pass."""


class UnavailableError(GpuError):
    """A device, kernel or model that cannot be had here."""


class RecordError(GpuError):
    """A record that cannot be written or read."""
