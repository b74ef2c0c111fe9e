"""Count the cores and the memory, and split work across cores."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shiftproof.core.errors import InvalidValue

Result = TypeVar("Result")

# The environment variable that sets the number of OpenMP threads.
LIMIT = "OMP_NUM_THREADS"
# An upper limit on threads: starting too many would end the process.
MOST_THREADS = 1024


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checked_threads(threads: int | None) -> int | None:
    """Return `threads` if it is None or a valid number of threads, or raise."""
    if threads is not None and (type(threads) is not int or not 1 <= threads <= MOST_THREADS):
        most = f"{MOST_THREADS:,}"
        raise InvalidValue(f"`threads` must be a number from 1 to {most}, not {threads!r}")
    return threads


def allowed_threads() -> int:
    """Return the number of threads this process may use: its cores, at most `OMP_NUM_THREADS`."""
    limit = os.environ.get(LIMIT, "")
    return min(int(limit), cores()) if limit.isdecimal() and int(limit) else cores()


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread, for calls from this thread, within the context."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def side_by_side(tasks: Sequence[Callable[[], Result]]) -> Iterator[Result]:
    """Yield the results of the tasks in order, each computed on one core.

    For long series of small operations, this is faster than splitting each operation across
    threads.
    """
    from threadpoolctl import threadpool_limits

    count = min(allowed_threads(), len(tasks))
    with one_thread_each():
        if count <= 1:
            for task in tasks:
                yield task()
            return
        # The OpenMP limit is per calling thread, so each worker sets its own, for its lifetime.
        with ThreadPoolExecutor(count, "shiftproof", threadpool_limits, (1,)) as pool:
            yield from pool.map(operator.call, tasks)


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
    """Return the threads per process: its share of the cores, at most `OMP_NUM_THREADS`."""
    return min(max(1, cores() // workers), allowed_threads())


def available_memory() -> int | None:
    """Return the memory in bytes available without swapping, or None if unknown."""
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
