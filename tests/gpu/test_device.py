from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from pytest_longctx.gpu import UnavailableError, default_mode, device
from pytest_longctx.gpu.device import Device, find_device, snapshot, supported_dtype, usable_devices, versions


def _broken(*broken):
    def make(name):
        if name in broken:
            raise RuntimeError("CUDA error: no kernel image\nmore")

    return make


def test_devices_are_probed_by_making_a_tensor():
    assert usable_devices(lambda: 3, _broken("cuda:1")) == ([0, 2], "")
    usable, reason = usable_devices(lambda: 1, _broken("cuda:0"))
    assert usable == []
    assert reason == "no tensor could be made on cuda:0: CUDA error: no kernel image"
    assert usable_devices(lambda: 0, _broken()) == ([], "torch sees no CUDA device")


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    usable, reason = usable_devices()
    assert usable == []
    assert "pip install 'pytest-longctx[gpu]'" in reason
    assert default_mode() == "dry_run"


def test_the_mode_follows_the_probe(monkeypatch):
    monkeypatch.setattr(device, "usable_devices", lambda: ([0], ""))
    assert default_mode() == "real"


def test_a_real_run_demands_cuda(monkeypatch):
    monkeypatch.setattr(device, "usable_devices", lambda: ([], "torch sees no CUDA device"))
    with pytest.raises(UnavailableError, match="a CUDA device is demanded, and torch sees no CUDA device"):
        find_device("real")
    assert find_device("cpu").kind == "cpu"


def test_the_first_device_that_works_is_described(monkeypatch):
    torch = pytest.importorskip("torch")
    facts = SimpleNamespace(
        name="Imaginary", total_memory=25_757_220_864, major=9, minor=0, multi_processor_count=132
    )
    chosen = []
    monkeypatch.setattr(device, "usable_devices", lambda: ([1, 2], ""))
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: facts)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    found = find_device("real")
    assert chosen == [1]
    assert found == Device("cuda", "Imaginary", 24, "9.0", 132, bfloat16=False, usable=2)


def test_float16_where_there_is_no_bfloat16():
    old = Device("cuda", "Old", bfloat16=False)
    assert supported_dtype("bfloat16", old) == ("float16", "Old has no bfloat16: float16 ran in its place")
    assert supported_dtype("float32", old) == ("float32", "")
    assert supported_dtype("bfloat16", Device("cuda", "New")) == ("bfloat16", "")


def test_the_fingerprint_is_of_the_hardware():
    one = Device("cuda", "H", 80, "9.0", 132, usable=1)
    assert one.fingerprint == Device("cuda", "H", 80, "9.0", 132, usable=8).fingerprint
    assert one.fingerprint != Device("cuda", "H", 141, "9.0", 132).fingerprint
    assert len(one.fingerprint) == 16


def test_the_snapshot_is_what_nvidia_smi_says():
    line = "580.1, 700.00 W, 31, 1980 MHz, 3201 MHz, Enabled\nsecond device\n"
    found = snapshot(Device("cuda", "H"), lambda *_, **__: SimpleNamespace(stdout=line))
    assert found["driver_version"] == "580.1"
    assert found["power.limit"] == "700.00 W"
    assert snapshot(Device("cuda", "H"), lambda *_, **__: SimpleNamespace(stdout="N/A")) == {}
    assert snapshot(Device("cpu", "x")) == {}


def test_no_snapshot_without_nvidia_smi():
    def absent(*_, **__):
        raise FileNotFoundError

    def hangs(*_, **__):
        raise subprocess.TimeoutExpired("nvidia-smi", 20)

    assert snapshot(Device("cuda", "H"), absent) == snapshot(Device("cuda", "H"), hangs) == {}


def test_versions():
    found = versions(None)
    assert found["pytest-longctx"]
    assert found["python"].startswith("3.")
    assert versions(Device("cuda", "H")).keys() >= {"cuda", "cudnn"}
