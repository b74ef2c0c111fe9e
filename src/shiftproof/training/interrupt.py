"""Stop after the current step on a signal, so that the checkpoint is complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def stopping_signals() -> list[signal.Signals]:
    """Return the signals that ask a process to stop."""
    signals = [signal.SIGINT, signal.SIGTERM]
    hang_up: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on Windows
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        signals.append(hang_up)
    return signals


class Stop:
    """Whether a signal has asked to stop, and whether the work has ended early because of it."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.heeded = False

    def asked(self) -> bool:
        """Return whether a signal has been received."""
        return self.number is not None


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Catch the first signal that asks to stop; yield a `Stop` that says whether one came.

    The signals are SIGINT (Ctrl-C), SIGTERM, and SIGHUP (the terminal was closed), which `nohup`
    makes processes ignore.  A second signal has its usual effect.  If the first came too late for
    the block to heed it (`Stop.heeded`), it has its usual effect when the block ends, so that the
    caller stops too.  Outside the main thread, where Python handles no signals, nothing is caught.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    watched = stopping_signals()
    previous = {number: signal.getsignal(number) for number in watched}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        stop.number = number
        restore()

    for number in watched:
        signal.signal(number, note)
    try:
        yield stop
    except (KeyboardInterrupt, SystemExit):
        stop.heeded = True  # the caller receives a second signal
        raise
    finally:
        restore()
        if stop.number is not None and not stop.heeded:
            signal.raise_signal(stop.number)
