"""The isolation probe: do packed samples see each other, in the model, as it is called?

The model runs; nothing is inferred from metadata. See `probe`.
"""

from pytest_longctx.isolation.batches import FORMS
from pytest_longctx.isolation.errors import (
    ArchitectureError,
    IsolationError,
    NonFiniteError,
    OutOfMemoryError,
    UnavailableError,
    VocabularyError,
)
from pytest_longctx.isolation.models import ATTENTIONS, FLASH, ModelTerms, architectures, build_model
from pytest_longctx.isolation.probe import probe
from pytest_longctx.isolation.results import CHECKS, Limits, Outcome, ProbeResult
from pytest_longctx.isolation.segments import LAYOUTS

__all__ = [
    "ATTENTIONS",
    "CHECKS",
    "FLASH",
    "FORMS",
    "LAYOUTS",
    "ArchitectureError",
    "IsolationError",
    "Limits",
    "ModelTerms",
    "NonFiniteError",
    "OutOfMemoryError",
    "Outcome",
    "ProbeResult",
    "UnavailableError",
    "VocabularyError",
    "architectures",
    "build_model",
    "probe",
]
