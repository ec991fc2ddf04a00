"""Which template a new contract names: the one given, or TRL's training variant of it."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from pytest_longctx.errors import LongctxError, MissingExtraError
from pytest_longctx.tokens.build import MESSAGE_SHAPES
from pytest_longctx.tokens.template import no_generation
from pytest_longctx.tokens.tokenizer import training_variant, trl_templates

if TYPE_CHECKING:
    from pytest_longctx.tokens.tokenizer import Tokenizer

_CONTROL_TOKEN = re.compile(r"<[|｜][^<>\s'\"{}]+[|｜]>")


def training_template(tokenizer: Tokenizer, shape: str) -> str | None:
    """The template to name instead of the given one; None where that one serves.

    Raises:
        LongctxError: the rows need a template with generation blocks, and there is none to name.
    """
    if shape not in MESSAGE_SHAPES or tokenizer.marks_generation:
        return None
    if tokenizer.template is None:
        raise LongctxError(
            "the tokenizer brings no chat template: name the one that the training run uses, as in "
            f"--template FILE.jinja{_fitting(tokenizer)}"
        )
    variant = training_variant(tokenizer)
    if variant is None:
        raise LongctxError(f"{no_generation(tokenizer)}{_fitting(tokenizer)}")
    return variant


def _fitting(tokenizer: Tokenizer) -> str:
    """TRL's training templates whose special tokens the tokenizer has; those of its name first."""
    try:
        files = sorted(trl_templates().glob("*_training.jinja"))
    except MissingExtraError:
        return "; TRL ships templates for training: pip install 'pytest-longctx[trl]'"
    known = set(tokenizer.backend.get_vocab())
    fitting = []
    for file in files:
        tokens = set(_CONTROL_TOKEN.findall(file.read_text(encoding="utf-8")))
        if tokens and tokens <= known:
            fitting.append(f"trl:{file.stem}")
    if not fitting:
        return ""
    name = re.sub(r"[\W_]+", "_", str(tokenizer.backend.name_or_path).lower())
    fitting.sort(key=lambda template: template[len("trl:") : -len("_training")] not in name)
    shown = textwrap.wrap(", ".join(fitting), 100, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(["", "of TRL's training templates these fit the tokenizer's special tokens:", *shown])
