"""pytest-longctx: a YAML data contract becomes tests for long-context SFT data."""

__version__ = "0.1.0"
