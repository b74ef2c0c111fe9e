"""The cores and the memory of this machine."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator

from shiftproof.core.cores import cores


def choose_workers(asked: int | None, memory_of_one: int) -> int:
    """Return how many processes to run: as many as cores, if the memory suffices.

    ``memory_of_one`` is what one takes, in bytes; ``asked`` is returned as it is.
    """
    if asked is not None:
        return asked
    free = available_memory()
    by_memory = cores() if free is None else int(0.8 * free / max(memory_of_one, 1))
    return max(1, min(cores(), by_memory))


def threads_of_each(workers: int) -> int:
    """Return the threads of each process: its share of the cores, at most OMP_NUM_THREADS."""
    share = max(1, cores() // workers)
    said = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(said)) if said.isdecimal() and int(said) else share


def available_memory() -> int | None:
    """Return how many bytes are free without swapping, or None if the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


@contextlib.contextmanager
def without_cycle_search() -> Iterator[None]:
    """Do not search for cycles of objects meanwhile.

    For code that makes very many objects without cycles: each search looks at all of them, and
    takes a quarter of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
