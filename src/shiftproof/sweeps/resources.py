"""The cores and the memory of this machine."""

from __future__ import annotations

import os


def choose_workers(asked: int | None, memory_of_one: int) -> int:
    """Return how many processes to run: as many as cores, if the memory suffices.

    ``memory_of_one`` is what one takes, in bytes; ``asked`` is returned as it is.
    """
    if asked is not None:
        return asked
    free = available_memory()
    by_memory = cores() if free is None else int(0.8 * free / max(memory_of_one, 1))
    return max(1, min(cores(), by_memory))


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
