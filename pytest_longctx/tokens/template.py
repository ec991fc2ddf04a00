"""Rendering: one conversation through the chat template, by transformers' own machinery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import TokenizerError
from pytest_longctx.tokens.deadline import LimitError, Watch
from pytest_longctx.tokens.sandbox import bounded_renderer
from pytest_longctx.tokens.tokenizer import first_line, training_variant

if TYPE_CHECKING:
    from pytest_longctx.tokens.align import Span
    from pytest_longctx.tokens.tokenizer import Tokenizer

Messages = list[dict[str, Any]]


# Far beyond any window; a block of such texts still fits into memory.
MAX_TEXT = 1 << 25


class RenderError(Exception):
    """The template refused one conversation."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """The rendered text and the character spans of its generation blocks, in order."""

    text: str
    blocks: list[Span]


class Renderer:
    """Renders conversations as `tokenizer.apply_chat_template` of the installed transformers does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        from transformers.utils import chat_template_utils

        self._render: Any = bounded_renderer()
        self._watch = Watch()
        # Newer releases drop keys that are None before the template sees them; older ones do not.
        self._normalize = getattr(chat_template_utils, "_normalize_chat_messages", list)
        self._special_tokens = tokenizer.backend.special_tokens_map
        self.tokenizer = tokenizer

    def render(
        self,
        messages: Messages,
        tools: list[dict[str, Any]] | None = None,
        kwargs: dict[str, Any] | None = None,
        *,
        add_generation_prompt: bool = False,
    ) -> Rendering:
        """Render one conversation.

        Raises:
            RenderError: with the template's own message.
            LimitError: the template does not end, or needs or makes too much.
        """
        if self.tokenizer.template is None:
            raise TokenizerError(no_template(self.tokenizer))
        try:
            with self._watch:
                texts, blocks = self._render(
                    conversations=[self._normalize(messages)],
                    tools=tools,
                    chat_template=self.tokenizer.template,
                    return_assistant_tokens_mask=self.tokenizer.marks_generation,
                    add_generation_prompt=add_generation_prompt,
                    **{**self._special_tokens, **self.tokenizer.template_kwargs, **(kwargs or {})},
                )
        except LimitError as error:
            raise LimitError(f"tokenizer.chat_template: {self.tokenizer.template_name} {error}") from None
        # A template is a program of the user's: it may raise anything.
        except Exception as error:
            raise RenderError(f"{type(error).__name__}: {first_line(error)}") from error
        if len(texts[0]) > MAX_TEXT:
            raise LimitError(
                f"tokenizer.chat_template: {self.tokenizer.template_name} made a text of more than "
                f"{MAX_TEXT:,} characters of one conversation"
            )
        return Rendering(texts[0], blocks[0] if blocks else [])


def no_template(tokenizer: Tokenizer) -> str:
    """What to do where the tokenizer brings no chat template."""
    return (
        f"tokenizer.chat_template: {tokenizer.template_name} is missing; name a .jinja file, "
        "or one that TRL ships, such as trl:qwen3_training"
    )


def no_generation(tokenizer: Tokenizer) -> str:
    """What to do where the template does not say what the assistant generates."""
    variant = training_variant(tokenizer)
    way_out = (
        f"use {variant}, TRL's training variant of it"
        if variant
        else "use a training variant (trl:…_training)"
    )
    return (
        f"tokenizer.chat_template: {tokenizer.template_name} has no {{% generation %}} block, so nothing is "
        f"supervised; {way_out}, or put {{% generation %}}…{{% endgeneration %}} around the assistant's text"
    )
