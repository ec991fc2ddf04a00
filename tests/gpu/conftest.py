from __future__ import annotations

from itertools import cycle

import pytest

from pytest_longctx.contract import GpuLimits, GpuSection, RandomModel
from pytest_longctx.gpu import measure
from pytest_longctx.gpu.device import Device
from pytest_longctx.gpu.record import Peak


class FakeClock:
    """Runs each step and says that it took the next of the given seconds."""

    name = "fake clock"

    def __init__(self, seconds):
        self._seconds = cycle(seconds)

    def seconds(self, step):
        step()
        return next(self._seconds)


class FakeMemory:
    """Runs the steps and says that they took the next of the given bytes."""

    name = "fake memory"

    def __init__(self, sizes):
        self._sizes = cycle(sizes)

    def peak(self, steps):
        steps()
        size = next(self._sizes)
        return Peak(size, size + 1)


@pytest.fixture
def fakes():
    """Instruments that say what they are told, after running the steps."""

    def fakes(seconds=(1.0,), sizes=(100,)):
        from pytest_longctx.gpu.training import Instruments

        return Instruments(FakeClock(seconds), FakeMemory(sizes))

    return fakes


@pytest.fixture
def terms():
    """A workload of a few tokens on a tiny model: lengths 4 and 8, samples of 3 and 5."""

    def terms(**keys):
        small = {
            "model": RandomModel(architecture="qwen2", size="tiny", seed=1),
            "sequence_lengths": [4, 8],
            "packing_sample_lengths": [3, 5],
            "warmup_steps": 1,
            "repeat_steps": 2,
        }
        limits = GpuLimits(**keys.pop("limits", {}))
        return GpuSection(**{**small, **keys}, limits=limits)

    return terms


@pytest.fixture
def device():
    """A device that says it is a GPU of some make and computes on the CPU."""
    return Device("cpu", "Imaginary 9000", memory_gib=24, capability="9.9", processors=80)


@pytest.fixture
def run(fakes, terms, device):
    """A run that judges as on a GPU, with times and bytes that are told to it."""

    def run(seconds=(1.0,), sizes=(100, 200, 300, 400), mode="real", build=None, record_path=None, **keys):
        return measure(
            terms(**keys),
            mode,
            find_device=lambda _mode: device,
            instruments=fakes(seconds, sizes),
            build=build,
            record_path=record_path,
        )

    return run


@pytest.fixture
def built():
    """Build the tiny model with a hook on its forward pass: it may change the output, or raise."""

    def built(hook):
        def build(workload, device):
            from pytest_longctx.gpu.model import build_model

            made = build_model(workload, device)
            made.model.register_forward_hook(hook, with_kwargs=True)
            return made

        return build

    return built


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tiny tensors: threads would only wait for each other."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
