"""The model that is trained: from the Hub at a commit, or an architecture with random weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import import_extra
from pytest_longctx.gpu.errors import UnavailableError
from pytest_longctx.isolation.models import architectures, without_dropout
from pytest_longctx.isolation.tiny import tiny_fields

if TYPE_CHECKING:
    import torch

    from pytest_longctx.gpu.device import Device
    from pytest_longctx.gpu.workload import Workload

TINY_VOCABULARY = 256
_NAMES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
)
# Sizes of the models Qwen/Qwen2.5-0.5B, -1.5B, -3B and -7B, from their config.json.
SIZES: dict[str, dict[str, Any]] = {
    name: {**dict(zip(_NAMES, numbers, strict=True)), "tie_word_embeddings": name != "7b"}
    for name, numbers in {
        "0.5b": (896, 4864, 24, 14, 2),
        "1.5b": (1536, 8960, 28, 12, 2),
        "3b": (2048, 11008, 36, 16, 2),
        "7b": (3584, 18944, 28, 28, 4),
    }.items()
}


@dataclass(frozen=True)
class Built:
    """A model on its device in training mode, and what the record says of it."""

    model: torch.nn.Module
    vocabulary: int
    facts: dict[str, Any]


def build_model(workload: Workload, device: Device) -> Built:
    """Build or load the workload's model, without dropout. Code from the Hub is never run.

    Raises:
        UnavailableError: the model, its commit or its attention implementation cannot be had.
    """
    torch = import_extra("torch", "gpu", "section gpu")
    terms = workload.model
    try:
        if "id" in terms:
            model: Any = _from_hub(terms, workload)
        else:
            devices = [torch.cuda.current_device()] if device.kind == "cuda" else []
            with torch.random.fork_rng(devices=devices), torch.device(device.kind):
                torch.manual_seed(terms["seed"])
                model = _random(terms, workload)
    except (OSError, ValueError, ImportError) as error:
        text = " ".join(str(error).split())[:300]
        raise UnavailableError(
            f"model {_named(terms)} cannot be had with {workload.attention}: {text}"
        ) from error
    _check_attention(model, workload)
    model = without_dropout(model.to(device.kind).train())
    embeddings = model.get_input_embeddings()
    return Built(model, int(embeddings.weight.shape[0]), _facts(model, terms))


def _from_hub(terms: dict[str, Any], workload: Workload) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        terms["id"],
        revision=terms["revision"],
        attn_implementation=workload.attention,
        dtype=getattr(torch, workload.dtype),
        trust_remote_code=False,
    )
    resolved = getattr(model.config, "_commit_hash", None)
    if resolved not in (None, terms["revision"]):
        raise UnavailableError(
            f"model {terms['id']}: commit {terms['revision']} was asked for, {resolved} came"
        )
    return model


def _random(terms: dict[str, Any], workload: Workload) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        _config(terms["architecture"], terms["size"]),
        attn_implementation=workload.attention,
        dtype=getattr(torch, workload.dtype),
        trust_remote_code=False,
    )


def _config(architecture: str, size: str) -> Any:
    known = architectures()
    name = f"{architecture}_text" if f"{architecture}_text" in known else architecture
    if name not in known:
        raise UnavailableError(f"gpu.model: {architecture!r} is no architecture with a causal language model")
    default = known[name]()
    if size == "tiny":
        return known[name](**tiny_fields(default.model_type, default.to_dict(), TINY_VOCABULARY))
    if size not in SIZES:
        raise UnavailableError(f"gpu.model: size {size!r} is none of tiny, {', '.join(SIZES)}")
    values = default.to_dict()
    missing = [key for key in _NAMES if key not in values]
    if missing:
        text = f"gpu.model: {architecture} has no {', '.join(missing)}, so it takes no size {size}: use tiny"
        raise UnavailableError(text)
    sizes = dict(SIZES[size])
    if values.get("head_dim") is not None:
        sizes["head_dim"] = sizes["hidden_size"] // sizes["num_attention_heads"]
    return known[name](**sizes)


def _check_attention(model: Any, workload: Workload) -> None:
    chosen = model.config._attn_implementation
    if chosen != workload.attention:
        raise UnavailableError(f"transformers fell back from {workload.attention} to {chosen}")


def _facts(model: Any, terms: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": _named(terms),
        "requested_revision": terms.get("revision"),
        "resolved_revision": getattr(model.config, "_commit_hash", None),
        "model_type": str(model.config.model_type),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _named(terms: dict[str, Any]) -> str:
    return str(terms["id"]) if "id" in terms else f"{terms['architecture']}, {terms['size']}, random weights"
