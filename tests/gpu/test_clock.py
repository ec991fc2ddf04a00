"""The CPU's own instruments; those of CUDA against a torch.cuda that writes down what is asked of it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from pytest_longctx.gpu import clock
from pytest_longctx.gpu.clock import CudaClock, CudaMemory, LiveTensors, WallClock, kernels_of
from pytest_longctx.gpu.record import Peak

torch = pytest.importorskip("torch")


def test_live_tensors_are_counted_while_they_live():
    """4,000 bytes, then 2,000 more, then 8,000 when the first are gone: 10,000 at most."""

    def steps():
        first = torch.zeros(1000)
        second = torch.zeros(500)
        del first
        third = torch.zeros(2000)
        assert third.numel() > second.numel()

    assert LiveTensors().peak(steps) == Peak(10_000, 10_000)


def test_views_and_changes_in_place_take_no_memory():
    def steps():
        tensor = torch.zeros(100)
        assert tensor.view(10, 10).add_(1).sum().item() == 100  # the sum is a tensor of 4 bytes

    assert LiveTensors().peak(steps).allocated_bytes == 404


def test_each_count_starts_at_nothing():
    kept = []
    counter = LiveTensors()
    assert counter.peak(lambda: kept.append(torch.zeros(1000))).allocated_bytes == 4000
    assert counter.peak(lambda: kept.clear() or torch.zeros(10)).allocated_bytes == 40


def test_the_backward_pass_counts():
    weight = torch.ones(1000, requires_grad=True)
    counted = LiveTensors().peak(lambda: weight.mul(2).sum().backward())
    # Product, its gradient and that of the weight take 4,000 bytes each; sum, its gradient and the 2 take 4.
    assert 4000 <= counted.allocated_bytes <= 12_016


def test_the_wall_clock_runs_the_step_once():
    calls = []
    assert WallClock().seconds(lambda: calls.append(1)) >= 0
    assert calls == [1]


def _attend():
    query = torch.randn(1, 2, 8, 16)
    torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)


def test_the_kernel_is_the_one_that_ran():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def math():
        with sdpa_kernel(SDPBackend.MATH):
            _attend()

    assert kernels_of("sdpa", _attend) == ("scaled_dot_product_flash_attention_for_cpu",)
    assert kernels_of("sdpa", math) == ("math",)
    assert kernels_of("sdpa", lambda: torch.zeros(1)) == ("none seen",)
    assert kernels_of("flash_attention_2", lambda: None) == ("flash_attention_2",)


@pytest.mark.parametrize("kernel", ["flash", "efficient", "cudnn"])
def test_the_kernels_of_cuda(monkeypatch, kernel):
    name = f"aten._scaled_dot_product_{kernel}_attention"
    operations = [
        f"{name}.default",
        f"{name}_backward.default",
        "aten._softmax.default",
        "aten._fused_sdp_choice.default",
    ]

    @contextmanager
    def watch(see):
        yield
        for operation in operations:
            see(operation, None)

    monkeypatch.setattr(clock, "watch", watch)
    assert kernels_of("sdpa", lambda: None) == (f"scaled_dot_product_{kernel}_attention",)


class _Event:
    def __init__(self, log):
        self.log = log

    def record(self):
        self.log.append("record")

    def elapsed_time(self, _other):
        return 12.5  # milliseconds


@pytest.fixture
def cuda(monkeypatch):
    """torch.cuda, writing down what is asked of it."""
    log = []
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda name=name: log.append(name))
    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: _Event(log))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 700)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 900)
    return log


def test_cuda_events_stand_around_the_step_alone(cuda):
    assert CudaClock().seconds(lambda: cuda.append("step")) == 0.0125
    assert cuda == ["synchronize", "record", "step", "record", "synchronize"]


def test_cuda_peaks_are_reset_before_the_steps(cuda):
    assert CudaMemory().peak(lambda: cuda.append("step")) == Peak(700, 900)
    assert cuda == ["synchronize", "empty_cache", "reset_peak_memory_stats", "step", "synchronize"]
