"""Limits on code that a contract brings along: templates and tokenizers are programs, and may never end.

Three ways were weighed. A process that renders can be killed on every platform, but to send each row there
and back costs a tenth of its rendering. `sys.settrace` doubles the time, and alarm signals exist neither on
Windows nor outside the main thread. So a thread looks on, and stops a render by an exception that CPython
raises in the rendering thread between two bytecodes; `sandbox` sees to it that no single step is long. Native
code cannot be stopped like this: it runs in a thread of its own, left behind when its time is over.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_longctx.errors import TokenizerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

T = TypeVar("T")

RENDER_SECONDS = 20.0  # for one conversation, which takes milliseconds
RENDER_BYTES = 1 << 30  # that the process may grow by in one render
NATIVE_SECONDS = 60.0  # for a call of the tokenizer, and more for long texts:
SECONDS_A_CHARACTER = 1e-5  # a twentieth of the usual speed
_LOOK = 0.1  # seconds between two looks
_Block = tuple[int, int, float]  # its number, its thread, when it began


class LimitError(TokenizerError):
    """A template or tokenizer does not end, or needs more memory than it may."""


class _StoppedError(BaseException):
    """Raised in the rendering thread; no `except Exception` of a filter may swallow it."""


class Watch:
    """Stops what runs inside `with watch:` once it takes too long or grows too large.

    One thread looks on while there is something to look at, and ends when nothing began between two looks,
    so that processes forked later do not find it.

    Raises:
        LimitError: from the `with` block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looking = False
        self._block: _Block | None = None  # what runs now
        self._begun = 0
        self._reason = ""

    def __enter__(self) -> None:
        # Once a row: kept to what is needed.
        self._begun += 1
        self._block = (self._begun, threading.get_ident(), time.monotonic())
        if not self._looking:
            self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with self._lock:
                self._block = None
                if self._reason:
                    _raise_in(threading.get_ident(), None)  # the one that has not arrived yet
        except _StoppedError:  # it arrived just here
            self._block = None
        if self._reason:
            reason, self._reason = self._reason, ""
            # The error outlives the render; what the render had made must not.
            traceback.clear_frames(trace)
            raise LimitError(reason) from None

    def _start(self) -> None:
        with self._lock:
            if not self._looking:
                self._looking = True
                threading.Thread(target=self._look_on, name="longctx-watch", daemon=True).start()

    def _look_on(self) -> None:
        """Look again and again; the size of the process is compared from the second look on a block."""
        begun, seen, size = 0, 0, 0
        while True:
            time.sleep(_LOOK)
            with self._lock:
                block = self._block
                if block is None and self._begun == begun and self._ended(begun):
                    return
                begun = self._begun
                if block is None:
                    continue
                number, thread, since = block
                if number != seen:
                    seen, size = number, process_bytes()
                if not self._reason:
                    self._reason = _too_much(process_bytes() - size, time.monotonic() - since)
                    if self._reason:
                        _raise_in(thread, _StoppedError)

    def _ended(self, begun: int) -> bool:
        """Whether to stop looking; a block that begins just now either sees the flag, or is seen here."""
        self._looking = False
        self._looking = self._block is not None or self._begun != begun
        return not self._looking


def _too_much(grown: int, seconds: float) -> str:
    if grown > RENDER_BYTES:
        return f"needed more than {RENDER_BYTES >> 20:,} MiB for one conversation, and was stopped"
    if seconds > RENDER_SECONDS:
        return f"had not ended after {RENDER_SECONDS:g} seconds for one conversation, and was stopped"
    return ""


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raise in a thread between two bytecodes; None takes back what was not raised yet."""
    kind = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), kind)


def process_bytes() -> int:
    """Resident memory of this process; where only its peak is known, that; 0 where neither is."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
        return pages * 4096
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource
    except ImportError:  # Windows: there only time is bounded, and the size of each step
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class Native(Generic[T]):
    """A call of native code over so many characters, which runs while this process does other work."""

    def __init__(self, call: Callable[[], T], characters: int) -> None:
        self._call, self._outcome = call, dict[str, Any]()
        self._seconds = NATIVE_SECONDS + SECONDS_A_CHARACTER * characters
        self._thread = threading.Thread(target=self._run, name="longctx-tokenizer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome["result"] = self._call()
        except BaseException as error:  # a Rust panic is a BaseException
            self._outcome["error"] = error

    def result(self) -> T:
        """What it returns.

        Raises:
            LimitError: it had not ended in time; its thread goes on, and ends with the process.
            TokenizerError: it panicked, which is no `Exception` in the bindings of Rust.
        """
        self._thread.join(self._seconds)
        if self._thread.is_alive():
            raise LimitError(
                f"the tokenizer had not ended after {self._seconds:.3g} seconds; its pattern may explode"
            )
        error = self._outcome.get("error")
        if error is None:
            result: T = self._outcome["result"]
            return result
        if isinstance(error, Exception):
            raise error
        raise TokenizerError(f"the tokenizer failed: {error}") from None


def in_time(call: Callable[[], T], characters: int) -> T:
    """The result of native code over a text of so many characters; errors as in `Native.result`."""
    return Native(call, characters).result()
