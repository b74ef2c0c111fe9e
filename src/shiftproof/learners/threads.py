"""How many threads a fit uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

from shiftproof.core.cores import free_cores

# A fit that takes fewer seconds on one core is a series of operations too short to be shared:
# threads would wait for each other after each one.  On a busy machine they wait for long.
SHORT = 5.0


@contextmanager
def threads_for(
    seconds: float, limited: Callable[[int], AbstractContextManager[Any]] = nullcontext
) -> Iterator[None]:
    """Use one thread for what takes fewer than `SHORT` seconds on a core, else all free cores.

    This is for libraries that split single operations across threads (OpenMP, BLAS).  `limited`
    limits another one that has a number of threads of its own.
    """
    count = 1 if seconds < SHORT else free_cores()
    with limited(count):
        now = max((library["num_threads"] for library in threadpool_info()), default=1)
        if count >= now:
            yield
            return
        with threadpool_limits(limits=count):
            yield
