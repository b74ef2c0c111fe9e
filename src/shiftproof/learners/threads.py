"""How many threads a fit uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from shiftproof.core.cores import free_cores

# A fit that takes fewer seconds on one core is a series of operations too short to be shared:
# threads would wait for each other after each one.  On a busy machine they wait for long.
SHORT = 5.0


@contextmanager
def threads_for(seconds: float) -> Iterator[None]:
    """Use one thread for what takes fewer than `SHORT` seconds on a core, else all free cores.

    This is for libraries that split single operations across threads (OpenMP, BLAS).
    """
    before = torch.get_num_threads()
    count = 1 if seconds < SHORT else free_cores()
    if count >= before:
        yield
        return
    with threadpool_limits(limits=count):
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)
