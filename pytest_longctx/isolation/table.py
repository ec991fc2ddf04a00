"""The table of `docs/isolation.md`. `python -m pytest_longctx.isolation.table docs/isolation.md` makes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_longctx.isolation.batches import FORMS
from pytest_longctx.isolation.models import FLASH, ModelTerms
from pytest_longctx.isolation.probe import probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_longctx.isolation.results import ProbeResult

ARCHITECTURES = (
    *("llama", "qwen2", "qwen3", "mistral", "mixtral", "qwen3_moe", "phi", "phi3", "smollm3", "granite"),
    *("gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "cohere2", "olmo2", "olmo3", "glm4", "llama4"),
    *(
        "deepseek_v3",
        "gpt_oss",
        "gpt2",
        "gpt_neox",
        "falcon",
        "stablelm",
        "starcoder2",
        "opt",
        "bloom",
        "mpt",
    ),
    *("mamba", "mamba2", "falcon_mamba", "qwen3_next", "qwen3_5", "jamba", "bamba", "granitemoehybrid"),
    *("falcon_h1", "nemotron_h", "zamba2", "lfm2", "minimax", "kimi_linear", "recurrent_gemma"),
)
ATTENTIONS = ("eager", "sdpa", "flex_attention", "flash_attention_2")
LAYOUTS = ((9, 4, 4, 1, 6),)
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def cell(architecture: str, attention: str, form: str) -> str:
    """What becomes of one form of batch, without a cache: isolated, LEAKS, wrong, refused or –."""
    asked = ("logits", "standalone")
    call = {"use_cache": False}
    found = probe(ModelTerms(architecture), attention, FORMS[form], call, checks=asked, layouts=LAYOUTS)
    if attention in FLASH:
        return _word(found["dispatch"])
    return next((word for name in asked if (word := _word(found[name])) != "isolated"), "isolated")


def rows(
    architectures: Sequence[str] = ARCHITECTURES, attentions: Sequence[str] = ATTENTIONS
) -> Iterator[tuple[str, ...]]:
    """Architecture, attention, a cell for each form; attentions that an architecture lacks are left out."""
    for architecture in architectures:
        for attention in attentions:
            cells = [cell(architecture, attention, form) for form in FORMS]
            if set(cells) != {"–"}:
                yield (architecture, attention, *cells)


def table(found: Sequence[tuple[str, ...]]) -> str:
    """The rows as a Markdown table, under a line with the versions that they hold for."""
    import torch
    import transformers

    head = ("architecture", "attention", *(f"`{form}`" for form in FORMS))
    lines = ["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *found)]
    versions = (
        f"transformers {transformers.__version__}, torch {torch.__version__.partition('+')[0]}, CPU, float32."
    )
    return "\n".join([versions, "", *lines])


def main(path: str) -> None:
    """Put the table between the marks of the file."""
    file = Path(path)
    before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    file.write_text(f"{before}{BEGIN}\n{table(list(rows()))}\n{END}{after}", encoding="utf-8")


def _word(result: ProbeResult) -> str:
    if result.outcome != "unknown":
        return "**LEAKS**" if result.outcome == "leaks" else result.outcome
    return "refused" if "refuses this call" in result.message else "–"


if __name__ == "__main__":
    main(sys.argv[1])
