"""Models and losses that are wrong in one known way each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pytest_longctx.isolation import build_model

if TYPE_CHECKING:
    from collections.abc import Callable

LOWEST = torch.finfo(torch.float32).min


def model_of(architecture: str = "qwen2") -> Any:
    return build_model(architecture, "eager")


def segment_numbers(positions: torch.Tensor) -> torch.Tensor:
    """0, 0, 1, 1, 1… from positions that restart at 0: one row."""
    return (positions[0] == 0).cumsum(0) - 1


def with_masks(change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], layers: slice) -> Any:
    """Some layers see a changed mask; `change` maps seen (tokens x tokens) and segment numbers to seen."""
    model = model_of()

    def hook(_module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        mask = kwargs["attention_mask"]
        seen = change(mask[0, 0] == 0, segment_numbers(kwargs["position_ids"]))
        opened = torch.where(seen, 0.0, LOWEST)
        return args, {**kwargs, "attention_mask": opened.reshape(1, -1, *opened.shape[-2:])}

    for layer in model.model.layers[layers]:
        layer.register_forward_pre_hook(hook, with_kwargs=True)
    return model


def with_states(change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The hidden states (rows x tokens x size) are changed before the first layer."""
    model = model_of()
    model.model.layers[0].register_forward_pre_hook(
        lambda _module, args, kwargs: ((change(args[0]), *args[1:]), kwargs), with_kwargs=True
    )
    return model


def with_call(change: Callable[[dict[str, Any]], dict[str, Any]], architecture: str = "qwen2") -> Any:
    """The model is called with changed arguments."""
    model = model_of(architecture)
    model.register_forward_pre_hook(lambda _module, args, kwargs: (args, change(kwargs)), with_kwargs=True)
    return model


def causal(numbers: torch.Tensor) -> torch.Tensor:
    return torch.ones(len(numbers), len(numbers)).tril().bool()


def ages(numbers: torch.Tensor) -> torch.Tensor:
    """How many tokens key `column` lies before query `row`."""
    places = torch.arange(len(numbers))
    return places[:, None] - places[None]


def same(numbers: torch.Tensor) -> torch.Tensor:
    return numbers[:, None] == numbers[None]


def one_head(seen: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    heads = seen.expand(4, -1, -1).clone()
    heads[2] = causal(numbers)
    return heads


def into_single_tokens(seen: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    alone = torch.bincount(numbers)[numbers] == 1
    return seen | (causal(numbers) & alone[:, None])


def shifted(states: torch.Tensor) -> torch.Tensor:
    """Each token's state taken from the token before it."""
    return torch.nn.functional.pad(states, (0, 0, 1, 0))[:, :-1]


def gradient_only(states: torch.Tensor) -> torch.Tensor:
    before = shifted(states)
    return states + (before - before.detach())


def kept_between_calls() -> Callable[[torch.Tensor], torch.Tensor]:
    kept = [0.0]

    def change(states: torch.Tensor) -> torch.Tensor:
        out = states + kept[0]
        kept[0] = float(states.mean())
        return out

    return change


def without_reset(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Positions run on over the row; the samples are kept apart by a mask."""
    if "position_ids" not in kwargs:
        return kwargs
    numbers = segment_numbers(kwargs["position_ids"])
    mask = torch.where(same(numbers) & causal(numbers), 0.0, LOWEST)
    return {**kwargs, "position_ids": torch.arange(len(numbers))[None], "attention_mask": mask[None, None]}


def token_losses(model: Any, inputs: Any, labels: torch.Tensor) -> torch.Tensor:
    logits = model(**inputs).logits
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none", ignore_index=-100
    )


def mean_over_samples(model: Any, inputs: Any, labels: torch.Tensor) -> torch.Tensor:
    losses = token_losses(model, inputs, labels)[0]
    numbers = segment_numbers(inputs.get("position_ids", torch.arange(labels.shape[1])[None]))[1:]
    counted = labels[0, 1:] != -100
    means = [
        losses[counted & (numbers == k)].mean() for k in numbers.unique() if (counted & (numbers == k)).any()
    ]
    return torch.stack(means).mean()


def mean_over_rows(model: Any, inputs: Any, labels: torch.Tensor) -> torch.Tensor:
    losses = token_losses(model, inputs, labels)
    return (losses.sum(1) / (labels[:, 1:] != -100).sum(1)).mean()


def summed(model: Any, inputs: Any, labels: torch.Tensor) -> torch.Tensor:
    return token_losses(model, inputs, labels).sum()


def over_all_tokens(model: Any, inputs: Any, labels: torch.Tensor) -> torch.Tensor:
    """Averaged over every token, also those that are no target."""
    return token_losses(model, inputs, labels).mean()


ALL = slice(None)
LEAKING_MODELS: dict[str, Callable[[], Any]] = {
    "mask ignored": lambda: with_masks(lambda _, n: causal(n), ALL),
    "positions dropped": lambda: with_call(lambda k: {**k, "position_ids": None}),
    "last layer only": lambda: with_masks(lambda _, n: causal(n), slice(1, None)),
    "first layer only": lambda: with_masks(lambda _, n: causal(n), slice(0, 1)),
    "one head": lambda: with_masks(one_head, slice(1, None)),
    "only beyond eight tokens": lambda: with_masks(lambda s, n: s | (ages(n) > 8), ALL),
    "only the token before": lambda: with_masks(lambda s, n: s | (ages(n) == 1), ALL),
    "only the first token of the row": lambda: with_masks(
        lambda s, n: s | (torch.arange(len(n)) == 0)[None].expand_as(s), ALL
    ),
    "only into single tokens": lambda: with_masks(into_single_tokens, ALL),
    "later samples seen": lambda: with_masks(lambda s, n: s | (n[:, None] < n[None]), ALL),
    "future seen inside a sample": lambda: with_masks(lambda _, n: same(n), ALL),
    "next token seen inside a sample": lambda: with_masks(lambda s, n: s | (same(n) & (ages(n) == -1)), ALL),
    "convolution state crosses": lambda: with_states(lambda x: x + 0.1 * shifted(x)),
    "a millionth crosses": lambda: with_states(lambda x: x + 1e-6 * shifted(x)),
    "running sum crosses": lambda: with_states(lambda x: x + 0.01 * x.cumsum(1)),
    "normalised over the row": lambda: with_states(lambda x: x - x.mean(1, keepdim=True)),
    "normalised over the batch": lambda: with_states(lambda x: x - x.mean((0, 1), keepdim=True)),
    "kept between calls": lambda: with_states(kept_between_calls()),
    "dropout left on": lambda: with_states(lambda x: torch.nn.functional.dropout(x, 0.1)),
}
WRONG_MODELS: dict[str, Callable[[], Any]] = {
    "learned positions without reset": lambda: with_call(without_reset, "gpt2"),
    "scaled by the row's length": lambda: with_states(lambda x: x * (1 + 0.01 * x.shape[1])),
    "window narrower when packed": lambda: with_masks(
        lambda s, n: s & (ages(n) < 3) if int(n[-1]) else s, ALL
    ),
}
WRONG_LOSSES = {
    "mean over samples": (mean_over_samples, "mean over samples"),
    "sum": (summed, "off by"),
    "mean over all tokens": (over_all_tokens, "off by"),
}
