"""Names of what ships, and the extra that each needs; nothing heavy is imported to know them."""

from __future__ import annotations

PACKERS: dict[str, str | None] = {
    "ffd": None,
    "bfd": None,
    "none": None,
    "trl_bfd": "trl",
    "trl_bfd_split": "trl",
    "trl_wrapped": "trl",
}
COLLATORS: dict[str, str | None] = {
    "block_mask": None,
    "padded": None,
    "trl_padding_free": "trl",
    "flattening": "trl",
}
TRAINERS: dict[str, str | None] = {"trl_sft": "trl", "transformers": "trl"}
