"""Samples of a tokenizer with two templates: `tool_use` renders rows with tools, `default` the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_longctx.errors import TokenizerError
from pytest_longctx.tokens.sample import Draft, Sampler

if TYPE_CHECKING:
    from pytest_longctx.dataset import Conversation, RowProblem


class SamplerByTools(Sampler):
    """A sampler that leaves rows with tools to another one, over the template that is theirs."""

    def __init__(self, plain: Sampler, with_tools: Sampler) -> None:
        super().__init__(plain.renderer, plain.scaffold, plain.terms)
        self._with_tools = with_tools

    def of(self, conversation: Conversation) -> Sampler:
        """The other one where the row has tools, were it an empty list."""
        return self if conversation.tools is None else self._with_tools

    def draft(self, conversation: Conversation) -> Draft | RowProblem:
        """The text of a conversation that has one.

        Raises:
            TokenizerError: the row's template cannot supervise what the contract wants supervised.
        """
        sampler = self.of(conversation)
        if sampler is self:
            return super().draft(conversation)
        if conversation.messages is not None and (reason := sampler.check_template()):
            raise TokenizerError(reason)
        return sampler.draft(conversation)
