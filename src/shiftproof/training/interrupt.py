"""Stopping at the end of a step when asked to, so that what is saved is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Within the context, note SIGINT and SIGTERM; yields a function that says if one came.

    A second signal acts as it would have without us.  Outside the main thread, where Python
    handles no signals, nothing is noted.
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
