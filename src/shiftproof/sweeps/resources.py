"""The cores and the memory of this machine."""

from __future__ import annotations

import os

from shiftproof.core.cores import cores


def choose_workers(asked: int | None, memory_of_one: int) -> int:
    """Return how many processes to run: one per core, if the memory suffices.

    ``memory_of_one`` is the memory of one process in bytes; ``asked`` overrides the choice.
    """
    if asked is not None:
        return asked
    free = available_memory()
    by_memory = cores() if free is None else int(0.8 * free / max(memory_of_one, 1))
    return max(1, min(cores(), by_memory))


def threads_of_each(workers: int) -> int:
    """Return the threads per process: its share of the cores, at most OMP_NUM_THREADS."""
    share = max(1, cores() // workers)
    said = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(said)) if said.isdecimal() and int(said) else share


def available_memory() -> int | None:
    """Return the memory in bytes available without swapping, or None if unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
