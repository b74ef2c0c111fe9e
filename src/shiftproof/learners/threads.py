"""The number of threads of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

from shiftproof.core.cores import allowed_threads

# Fits that take fewer seconds on one core consist of operations too short to parallelise: threads
# would wait for each other after each one, and for long on a busy machine.
SHORT = 5.0


@contextmanager
def threads_for(
    seconds: float, limited: Callable[[int], AbstractContextManager[Any]] = nullcontext
) -> Iterator[None]:
    """Use one thread for tasks under `SHORT` seconds on one core, and all allowed ones otherwise.

    This limits libraries that split single operations across threads (OpenMP, BLAS).  `limited`
    limits another library with its own thread count.
    """
    count = 1 if seconds < SHORT else allowed_threads()
    with limited(count):
        now = max((library["num_threads"] for library in threadpool_info()), default=1)
        if count >= now:
            yield
            return
        with threadpool_limits(limits=count):
            yield
