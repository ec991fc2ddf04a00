"""Where a run takes place: probed by making a tensor there, never by asking whether it should work."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import orjson

from pytest_longctx.errors import import_extra
from pytest_longctx.gpu.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_longctx.gpu.record import Mode

_SNAPSHOT = (
    "driver_version",
    "power.limit",
    "temperature.gpu",
    "clocks.sm",
    "clocks.mem",
    "ecc.mode.current",
)


@dataclass(frozen=True, slots=True)
class Device:
    """One device. memory_gib is rounded, as drivers keep changing amounts of it for themselves."""

    kind: str
    name: str
    memory_gib: int | None = None
    capability: str | None = None
    processors: int | None = None
    bfloat16: bool = True
    usable: int = 1

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits over what makes devices comparable: not their number or driver."""
        values = asdict(self)
        del values["usable"]
        return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the fingerprint."""
        return {**asdict(self), "fingerprint": self.fingerprint}


def usable_devices(
    count: Callable[[], int] | None = None, make: Callable[[str], object] | None = None
) -> tuple[list[int], str]:
    """Numbers of the CUDA devices on which a tensor could be made, and why there are no more.

    Args:
        count, make: in place of torch's, for tests.
    """
    if count is None or make is None:
        try:
            import torch
        except ImportError as error:
            return [], f"torch cannot be imported ({error}): pip install 'pytest-longctx[gpu]'"
        count = torch.cuda.device_count
        make = lambda device: torch.zeros(1, device=device).item()  # noqa: E731
    usable, reason = [], "torch sees no CUDA device"
    for number in range(count()):
        try:
            make(f"cuda:{number}")
        except Exception as error:  # drivers and allocators fail in many ways
            reason = f"no tensor could be made on cuda:{number}: {_first_line(error)}"
        else:
            usable.append(number)
    return usable, "" if usable else reason


def default_mode() -> Mode:
    """`real` where a tensor can be made on a CUDA device, else `dry_run`."""
    return "real" if usable_devices()[0] else "dry_run"


def find_device(mode: Mode) -> Device:
    """The device of a run.

    Raises:
        UnavailableError: the run demands a CUDA device and no tensor can be made on one.
    """
    if mode != "real":
        return Device("cpu", platform.processor() or platform.machine())
    usable, reason = usable_devices()
    if not usable:
        raise UnavailableError(
            f"a CUDA device is demanded, and {reason}: use a GPU machine, or --longctx-gpu=cpu or dry_run"
        )
    torch = import_extra("torch", "gpu", "section gpu")
    torch.cuda.set_device(usable[0])
    facts = torch.cuda.get_device_properties(usable[0])
    return Device(
        kind="cuda",
        name=str(facts.name),
        memory_gib=round(facts.total_memory / 2**30),
        capability=f"{facts.major}.{facts.minor}",
        processors=int(facts.multi_processor_count),
        bfloat16=bool(torch.cuda.is_bf16_supported(including_emulation=False)),
        usable=len(usable),
    )


def supported_dtype(wanted: str, device: Device) -> tuple[str, str]:
    """The precision that runs, and what to say where it is not the one wanted."""
    if wanted == "bfloat16" and not device.bfloat16:
        return "float16", f"{device.name} has no bfloat16: float16 ran in its place"
    return wanted, ""


def snapshot(device: Device, run: Callable[..., Any] = subprocess.run) -> dict[str, str | None]:
    """The driver, power limit, temperature and clocks as nvidia-smi tells them; empty without it."""
    if device.kind != "cuda":
        return {}
    command = ["nvidia-smi", f"--query-gpu={','.join(_SNAPSHOT)}", "--format=csv,noheader"]
    try:
        done = run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in str(done.stdout).strip().split("\n")[0].split(",")]
    return dict(zip(_SNAPSHOT, values, strict=True)) if len(values) == len(_SNAPSHOT) else {}


def versions(device: Device | None) -> dict[str, str | None]:
    """Versions of the frameworks, and of CUDA and cuDNN where the run is on a GPU."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("pytest-longctx", "torch", "transformers", "flash-attn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    if device is not None and device.kind == "cuda":
        import torch

        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        found |= {"cuda": torch.version.cuda, "cudnn": None if cudnn is None else str(cudnn)}
    return found


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
