"""Which path transformers takes to a flash kernel, seen on a CPU.

The kernels need a CUDA device, but what transformers hands them does not: an attention function registered
through its public registry runs transformers' own flash path, with kernels written in plain torch that note
each call. This is the dispatch, not the kernel: a fault of the kernel itself does not show.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_longctx.isolation import behaviour
from pytest_longctx.isolation.errors import UnavailableError
from pytest_longctx.isolation.models import PLAIN_FLASH

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from pytest_longctx.isolation.behaviour import Setting
    from pytest_longctx.isolation.results import ProbeResult


_LOADER = "lazy_import_flash_attention"  # private to transformers: its absence is reported, not assumed


@dataclass(slots=True)
class Record:
    """The kernel calls of one forward pass, one plain row each."""

    calls: list[dict[str, Any]] = field(default_factory=list)

    def dense(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **terms: Any
    ) -> torch.Tensor:
        """`flash_attn_func`: rows x tokens x heads x size, every row on its own."""
        self.calls.append({"kernel": "dense", "rows": int(query.shape[0]), "tokens": int(query.shape[1])})
        import torch

        return torch.stack([_attend(q, k, v, **terms) for q, k, v in zip(query, key, value, strict=True)])

    def varlen(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cu_seqlens_q: Any,
        cu_seqlens_k: Any,
        **terms: Any,
    ) -> torch.Tensor:
        """`flash_attn_varlen_func`: tokens x heads x size, one attention for each pair of boundaries."""
        import torch

        bounds = [int(b) for b in cu_seqlens_q]
        self.calls.append(
            {
                "kernel": "varlen",
                "cu_seq_lens": bounds,
                "max_length": int(terms["max_seqlen_q"]),
                "tokens": int(query.shape[0]),
            }
        )
        out = torch.zeros_like(query[..., : value.shape[-1]])
        keys = [int(b) for b in cu_seqlens_k]
        for start, end, key_start, key_end in zip(bounds[:-1], bounds[1:], keys[:-1], keys[1:], strict=True):
            one = slice(key_start, key_end)
            out[start:end] = _attend(query[start:end], key[one], value[one], **terms)
        return out


def dispatch(setting: Setting, record: Record) -> ProbeResult:
    """Where transformers sends the batch, and whether samples stay apart there; `table` has the kernel calls.

    Raises UnavailableError when the model does not reach the flash path.
    """
    batch = setting.original()
    record.calls.clear()
    setting.subject.logits(batch)
    calls = tuple(record.calls)
    if not calls:
        raise UnavailableError("the model does not reach transformers' flash path")
    result = behaviour.logits(setting)
    if result.outcome == "isolated":
        result = behaviour.standalone(setting)
    apart = "samples stay apart" if result.outcome == "isolated" else result.message
    message = f"dispatch, not the kernel: {_say(calls[0])}; {apart}"
    return replace(result, name="dispatch", message=message, table=calls)


def _say(call: dict[str, Any]) -> str:
    if call["kernel"] == "dense":
        return f"the dense kernel over {call['rows']} x {call['tokens']} tokens, each row as one sample"
    return f"the varlen kernel with boundaries {call['cu_seq_lens']}, longest {call['max_length']}"


@contextmanager
def plain_flash() -> Iterator[Record]:
    """Register the attention function and put plain torch in the kernels' place; both are gone afterwards.

    Raises UnavailableError when this transformers hands its kernels over in another way.
    """
    from transformers import AttentionInterface
    from transformers import modeling_flash_attention_utils as flash
    from transformers.integrations.flash_attention import flash_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, flash_attention_mask

    record = Record()
    load = getattr(flash, _LOADER, None)
    terms = getattr(flash, "_process_flash_attention_kwargs", None)
    if load is None or terms is None or "supports_mapping" not in inspect.signature(terms).parameters:
        raise UnavailableError(
            "this transformers hands its flash kernels over in a way that the probe does not know"
        )
    supported = dict.fromkeys(
        ("dropout_p", "window_size", "softcap", "s_aux", "max_seqlen_q", "max_seqlen_k"), True
    )
    process = partial(terms, supports_mapping=_Supported(supported))
    kernels = (record.dense, record.varlen, None, flash._pad_input, flash._unpad_input)
    AttentionInterface.register(PLAIN_FLASH, flash_attention_forward)
    AttentionMaskInterface.register(PLAIN_FLASH, flash_attention_mask)
    setattr(flash, _LOADER, lambda *_, **__: (kernels, (process, process)))
    try:
        yield record
    finally:
        setattr(flash, _LOADER, load)
        AttentionInterface._global_mapping.pop(PLAIN_FLASH, None)
        AttentionMaskInterface._global_mapping.pop(PLAIN_FLASH, None)


class _Supported(dict[str, bool]):
    def __missing__(self, key: str) -> bool:
        return False


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    causal: bool,
    softmax_scale: float | None,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    """Attention over one segment: tokens x heads x size, as the kernel documents its arguments."""
    import torch

    groups = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    scores = torch.einsum("qhd,khd->hqk", query, key) * (softmax_scale or query.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    ages = torch.arange(query.shape[0])[:, None] - torch.arange(key.shape[0])[None]
    ages = (ages + key.shape[0] - query.shape[0]).to(query.device)
    hidden = (ages < 0) & causal
    if window_size[0] >= 0:
        hidden |= ages > window_size[0]
    scores = scores.masked_fill(hidden, float("-inf"))
    if s_aux is not None:
        sink = s_aux[:, None, None].expand(-1, scores.shape[1], 1)
        weights = torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, value)
