"""Stop after the current step on a signal, so that the checkpoint is complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def stopping_signals() -> list[signal.Signals]:
    """Return the signals that ask a process to stop."""
    found = [signal.SIGINT, signal.SIGTERM]
    hang_up: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on Windows
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        found.append(hang_up)
    return found


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Catch the first signal that asks to stop; yields a function that tells whether one came.

    These are SIGINT (Ctrl-C), SIGTERM, and SIGHUP (the terminal was closed), which `nohup` makes
    processes ignore.  A second signal has its usual effect.  Outside the main thread, where Python
    handles no signals, nothing is caught.
    """
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    watched = stopping_signals()
    previous = {number: signal.getsignal(number) for number in watched}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        came.set()
        restore()

    for number in watched:
        signal.signal(number, note)
    try:
        yield came.is_set
    finally:
        restore()
