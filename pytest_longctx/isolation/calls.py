"""Calling the model as the training step does: the collator's batch and the contract's arguments."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_longctx.isolation.batches import IGNORED
from pytest_longctx.isolation.errors import IsolationError, NonFiniteError, UnavailableError, VocabularyError
from pytest_longctx.isolation.models import out_of_memory
from pytest_longctx.isolation.segments import IdArray, Place, Segments, locate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import torch

    Loss = Callable[[torch.nn.Module, Mapping[str, Any], torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Batch:
    """What `forward` receives, the labels beside it (rows x tokens), and the place of each segment."""

    inputs: dict[str, Any]
    labels: torch.Tensor
    places: list[Place]


@dataclass(frozen=True, slots=True)
class Subject:
    """A model and the way in which it is called.

    `make_batch` maps samples to a batch; `forward` holds the further arguments of the call; `loss` maps
    model, arguments and labels to a scalar.
    """

    model: torch.nn.Module
    make_batch: Callable[[list[IdArray]], Mapping[str, Any]]
    forward: Mapping[str, Any]
    loss: Loss

    def batch(self, samples: Sequence[IdArray]) -> Batch:
        """The batch of these samples. Raises IsolationError when it does not hold them."""
        made = dict(self.make_batch(list(samples)))
        if "input_ids" not in made:
            raise IsolationError(f"the batch has no input_ids; it has {', '.join(sorted(made)) or 'nothing'}")
        ids = np.asarray(made["input_ids"])
        places = locate(ids, samples)
        self._check_vocabulary(ids)
        made.setdefault("labels", _labels(ids, places))
        inputs = {key: as_tensor(value, self.model) for key, value in made.items()}
        labels = inputs.pop("labels")
        return Batch(inputs | dict(self.forward), labels, places)

    def logits(self, batch: Batch) -> torch.Tensor:
        """Logits in float32, rows x tokens x vocabulary, without gradient."""
        import torch

        with torch.no_grad():
            return self.graph(batch.inputs).float()

    def plain(self, ids: IdArray) -> torch.Tensor:
        """Logits of one sample alone in a row, no mask, no cache: tokens x vocabulary, float32."""
        import torch

        with torch.no_grad():
            return self.graph(self.alone(ids))[0].float()

    def alone(self, ids: IdArray) -> dict[str, Any]:
        """The call for one sample alone."""
        return {"input_ids": as_tensor(ids[None], self.model), "use_cache": False}

    def graph(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Logits with their graph. Raises NonFiniteError, and UnavailableError when the call is refused."""
        with refusals(), out_of_memory():
            logits: torch.Tensor = self.model(**inputs).logits
        if not bool(logits.isfinite().all()):
            raise NonFiniteError(
                "the model returned NaN or infinite logits for the probe's batch: "
                "check its weights, the dtype, and rows of the mask that see no token"
            )
        return logits

    def loss_of(self, inputs: Mapping[str, Any], labels: torch.Tensor) -> float:
        """The loss of a call, as a number."""
        import torch

        with torch.no_grad(), refusals(), out_of_memory():
            return float(self.loss(self.model, inputs, labels))

    @contextmanager
    def embeddings(self) -> Iterator[list[torch.Tensor]]:
        """Collect the embedding output of calls made inside, as leaves that take a gradient."""
        leaves: list[torch.Tensor] = []

        def replace(_module: object, _inputs: object, output: torch.Tensor) -> torch.Tensor:
            leaves.append(output.detach().requires_grad_())
            return leaves[-1]

        handle = self.model.get_input_embeddings().register_forward_hook(replace)  # type: ignore[operator]
        try:
            yield leaves
        finally:
            handle.remove()

    def _check_vocabulary(self, ids: np.ndarray[Any, Any]) -> None:
        size = vocabulary_of(self.model)
        if int(ids.max()) >= size or int(ids.min()) < 0:
            bad = int(ids.max()) if int(ids.max()) >= size else int(ids.min())
            raise VocabularyError(
                f"the batch holds token id {bad} and the model has ids 0 to {size - 1}: "
                "the collator's padding id or the tokenizer does not belong to this model"
            )


def own_loss(model: torch.nn.Module, inputs: Mapping[str, Any], labels: torch.Tensor) -> torch.Tensor:
    """The loss that the model itself computes from labels."""
    loss: torch.Tensor = model(**inputs, labels=labels).loss
    return loss


def vocabulary_of(model: torch.nn.Module) -> int:
    """Number of token ids that the model embeds."""
    return int(model.get_input_embeddings().weight.shape[0])  # type: ignore[operator]


def as_tensor(value: Any, model: torch.nn.Module) -> Any:
    """Arrays as tensors on the model's device; float arrays take its dtype, as numpy has no bfloat16."""
    import torch

    parameter = next(model.parameters())
    if isinstance(value, np.ndarray):
        tensor = torch.from_numpy(np.ascontiguousarray(value))
        return tensor.to(parameter.device, parameter.dtype if tensor.is_floating_point() else None)
    return value.to(parameter.device) if isinstance(value, torch.Tensor) else value


@contextmanager
def refusals() -> Iterator[None]:
    """Turn an error that `forward` raises into UnavailableError: the call cannot be judged here."""
    try:
        yield
    except IsolationError:
        raise
    except Exception as error:  # a model's code may raise anything
        text = " ".join(str(error).split())
        raise UnavailableError(
            f"the model refuses this call ({type(error).__name__}: {text[:300]})"
        ) from error


@contextmanager
def deterministic(seed: int, device: str, attention: str) -> Iterator[None]:
    """Seed torch and ask it for deterministic algorithms on one thread; all is as before afterwards.

    One thread: sums then have one order, and a tiny model does not wait for threads that others keep busy.
    On a CPU flex attention runs uncompiled: the same arithmetic without a minute of compilation.
    """
    import warnings

    import torch

    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    threads = torch.get_num_threads()
    cuda = device.startswith("cuda")
    uncompiled = attention == "flex_attention" and not cuda
    stance = torch.compiler.set_stance("force_eager") if uncompiled else nullcontext()
    devices = list(range(torch.cuda.device_count())) if cuda else []
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings(), stance:
        warnings.simplefilter(
            "ignore"
        )  # what libraries say about a tiny random model is not about the contract
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(before, warn_only=warn_only)


def _labels(ids: np.ndarray[Any, Any], places: Sequence[Place]) -> IdArray:
    """Labels for a batch that has none: each token its own, but a segment's first."""
    labels = np.full(ids.shape, IGNORED, dtype=np.int64)
    for place in places:
        labels[place.row, place.start + 1 : place.end] = ids[place.row, place.start + 1 : place.end]
    return labels


def draw(lengths: Sequence[int], model: torch.nn.Module, seed: int) -> Segments:
    """Samples for this model; its special tokens are not among them."""
    from pytest_longctx.isolation.segments import draw_segments

    config = getattr(model, "config", None)
    special = [getattr(config, f"{kind}_token_id", None) for kind in ("pad", "bos", "eos")]
    avoid = {int(i) for value in special if value is not None for i in np.atleast_1d(value)}
    return draw_segments(lengths, vocabulary_of(model), seed, avoid)
