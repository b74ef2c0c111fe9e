"""Stop after the current step on SIGINT or SIGTERM, so that the checkpoint is complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Catch the first SIGINT or SIGTERM; yields a function that tells whether one came.

    A second signal has its usual effect.  Outside the main thread, where Python handles no signals,
    nothing is caught.
    """
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    watched = (signal.SIGINT, signal.SIGTERM)
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
