"""What can be wrong with a probe's model or batches."""

from __future__ import annotations

from pytest_longctx.errors import LongctxError


class IsolationError(LongctxError):
    """The probe cannot be run as it was asked for; never a pass."""


class ArchitectureError(IsolationError):
    """No such architecture, or it cannot be built."""


class VocabularyError(IsolationError):
    """Token ids that the model has no embedding for."""


class NonFiniteError(IsolationError):
    """The model returned NaN or infinity."""


class OutOfMemoryError(IsolationError):
    """The probe did not fit into memory."""


class UnavailableError(IsolationError):
    """Something that cannot run here, with the reason: the probe's outcome is then `unknown`.

    `requirement` names what is missing, where that is something else than the attention.
    """

    def __init__(self, message: str, requirement: str = "") -> None:
        self.requirement = requirement
        super().__init__(message)
