"""The sections of a contract, in the order in which their checks run."""

SECTIONS = (
    "tokenizer",
    "dataset",
    "supervision",
    "lengths",
    "window",
    "packing",
    "isolation",
    "curriculum",
    "gpu",
)

CUSTOM = "custom"  # checks that plugins and conftest.py register
