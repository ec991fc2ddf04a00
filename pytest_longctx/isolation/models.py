"""The model under probe: an architecture made tiny, or a folder's own configuration and weights."""

from __future__ import annotations

import difflib
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import import_extra
from pytest_longctx.isolation.errors import ArchitectureError, OutOfMemoryError, UnavailableError
from pytest_longctx.isolation.tiny import tiny_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

FLASH = ("flash_attention_2", "flash_attention_3", "flash_attention_4")
PLAIN_FLASH = (
    "longctx_flash"  # registered by `dispatch`; transformers takes any name with "flash" in it for flash
)
ATTENTIONS = ("eager", "sdpa", "flex_attention", *FLASH)
_DROPOUT = re.compile(r"drop|jitter")
_OUT_OF_MEMORY = re.compile(r"out of memory|not enough memory|can't allocate memory", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelTerms:
    """Which model to build. `name` is a transformers architecture, a folder or a Hub id.

    With `weights` the folder's own sizes and weights are used; without, its layer kinds in tiny sizes and
    random weights. `vocabulary_size` is that of the tiny model; the folder's own is used with `weights`.
    """

    name: str
    vocabulary_size: int = 256
    weights: bool = False
    revision: str | None = None


def build_model(
    name: str,
    attention: str,
    vocabulary_size: int = 256,
    dtype: str = "float32",
    device: str = "cpu",
    seed: int = 0,
    weights: bool = False,
    revision: str | None = None,
) -> torch.nn.Module:
    """A causal language model in training mode, without any dropout.

    Raises UnavailableError when the device is not here, the attention implementation cannot run here or the
    architecture lacks it, ArchitectureError when the architecture is unknown or cannot be built. Code from
    the Hub is never run.
    """
    torch = import_extra("torch", "trl", "the isolation probe")
    _check_attention(attention, device)
    if device.startswith("cuda") and not torch.cuda.is_available():
        text = "isolation.device: cuda, but torch finds no CUDA device here; leave it out to probe on a CPU"
        raise UnavailableError(text, "gpu")
    with out_of_memory(), torch.random.fork_rng(devices=_cuda_devices(device)):
        torch.manual_seed(seed)
        if weights:
            model = _pretrained(name, revision, attention, dtype)
        else:
            model = _from_config(name, _tiny_config(name, vocabulary_size, revision), attention)
        model = model.to(device=device, dtype=getattr(torch, dtype))
    chosen = model.config._attn_implementation
    if chosen != attention:
        raise UnavailableError(f"transformers fell back from {attention} to {chosen} for {name}")
    return without_dropout(model.train())


def without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """Set every dropout rate and router jitter to 0: training mode then gives the same answer each time."""
    for module in model.modules():
        for key, value in vars(module).items():
            if isinstance(value, float) and (
                _DROPOUT.search(key) or type(module).__name__.startswith("Dropout")
            ):
                setattr(module, key, 0.0)
    return model


@contextmanager
def out_of_memory() -> Iterator[None]:
    """Turn an allocation failure into an error that says what to shrink."""
    import torch

    try:
        yield
    except (MemoryError, RuntimeError) as error:
        exhausted = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _OUT_OF_MEMORY.search(
            str(error)
        )
        if not exhausted:
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise OutOfMemoryError(
            f"the isolation probe ran out of memory ({reason}): name the architecture instead of a folder "
            "with weights, lower the vocabulary or the probe's lengths, or use a device with more memory"
        ) from error


def architectures() -> dict[str, type[Any]]:
    """Architectures that have a causal language model: name → configuration class."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return {
        name: CONFIG_MAPPING[name] for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if name in CONFIG_MAPPING
    }


def _check_attention(attention: str, device: str) -> None:
    if attention not in ATTENTIONS:
        near = difflib.get_close_matches(attention, ATTENTIONS, n=1, cutoff=0.4)
        raise ArchitectureError(
            f"attention {attention!r} is none of {', '.join(ATTENTIONS)}"
            + (f"; did you mean {near[0]}?" if near else "")
        )
    if attention in FLASH and not device.startswith("cuda"):
        raise UnavailableError(f"{attention} kernels need a CUDA device and this probe runs on {device}")


def _cuda_devices(device: str) -> list[int]:
    import torch

    return list(range(torch.cuda.device_count())) if device.startswith("cuda") else []


def _tiny_config(name: str, vocabulary_size: int, revision: str | None) -> Any:
    default = _default_config(name, revision)
    fields = tiny_fields(default.model_type, default.to_dict(), vocabulary_size)
    try:
        return type(default)(**(default.to_diff_dict() | fields) if default.name_or_path else fields)
    except Exception as error:  # a configuration class may refuse sizes in any way
        raise ArchitectureError(_unbuildable(name, error)) from error


def _default_config(name: str, revision: str | None) -> Any:
    if Path(name).exists() or "/" in name:
        return _folder_config(name, revision)
    known = architectures()
    for candidate in (f"{name}_text", name):
        if candidate in known:
            return known[candidate]()
    near = difflib.get_close_matches(name, known, n=5, cutoff=0.5)
    raise ArchitectureError(
        f"model {name!r} is no folder and no architecture with a causal language model in this transformers; "
        + (f"near: {', '.join(near)}" if near else "see transformers' list of architectures")
    )


def _folder_config(name: str, revision: str | None) -> Any:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ArchitectureError(f"model {name!r}: no configuration could be read: {reason}") from error
    text = config.get_text_config(decoder=True)
    text.name_or_path = name
    return text


def _from_config(name: str, config: Any, attention: str) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        build: Any = AutoModelForCausalLM.from_config  # has no types
        return build(config, attn_implementation=attention, trust_remote_code=False)
    except (ValueError, ImportError) as error:
        raise _refused(name, attention, error) from error
    except (RuntimeError, TypeError, AttributeError, KeyError, ZeroDivisionError) as error:
        raise ArchitectureError(_unbuildable(name, error)) from error


def _pretrained(name: str, revision: str | None, attention: str, dtype: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(
            name,
            revision=revision,
            attn_implementation=attention,
            dtype=getattr(torch, dtype),
            trust_remote_code=False,
        )
    except OSError as error:
        raise ArchitectureError(
            f"model {name!r}: no weights could be read: {str(error).splitlines()[0]}"
        ) from error
    except (ValueError, ImportError) as error:
        raise _refused(name, attention, error) from error


def _refused(name: str, attention: str, error: Exception) -> Exception:
    text = " ".join(str(error).split())
    if re.search(r"attention|attn|flash|flex|kernel", text, re.IGNORECASE):
        return UnavailableError(f"{name} does not run with {attention} here: {text[:300]}")
    return ArchitectureError(_unbuildable(name, error))


def _unbuildable(name: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    return (
        f"model {name!r} cannot be built in a tiny size ({type(error).__name__}: {text[:300]}): "
        "give a folder with a small config.json of this architecture instead"
    )
