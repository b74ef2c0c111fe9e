"""How many cores there are, how many of them are free, and work split across the free ones."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from shiftproof.core.errors import InvalidValue

Result = TypeVar("Result")

# The variable by which OpenMP is told the number of its threads.
LIMIT = "OMP_NUM_THREADS"
# More than any machine has cores: starting so many would end the process.
MOST_THREADS = 1024
# The share of the cores that this process may use; None for all of them.
_share: int | None = None


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checked_threads(threads: int | None) -> int | None:
    """Return a number of threads, if it is one."""
    if threads is not None and (type(threads) is not int or not 1 <= threads <= MOST_THREADS):
        most = f"{MOST_THREADS:,}"
        raise InvalidValue(f"`threads` must be a number from 1 to {most}, not {threads!r}")
    return threads


def allowed_threads() -> int:
    """Return how many threads this process may compute with: `OMP_NUM_THREADS`, or its share."""
    asked = os.environ.get(LIMIT, "")
    return max(1, min(int(asked) if asked.isdecimal() else cores(), _share or cores()))


@contextlib.contextmanager
def share_of_cores(count: int) -> Iterator[None]:
    """Let this process compute with no more threads, meanwhile: other processes use the rest."""
    from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

    global _share
    before, _share = _share, count
    now = max((library["num_threads"] for library in threadpool_info()), default=count)
    try:
        with threadpool_limits(limits=min(count, now)):
            yield
    finally:
        _share = before


def free_cores() -> int:
    """Return how many cores nobody else uses, at least 1 and at most `allowed_threads`.

    A core is in use if it was so over the last minute (the load average) and is so now: a program
    that has just ended is no reason to leave its core idle.
    """
    free = cores() - round(min(_load(), _running()))
    return max(1, min(free, allowed_threads()))


def _load() -> float:
    """Return how many threads were running or waiting to run, over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _running() -> float:
    """Return how many other threads are running or waiting to run now, if the system says."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        running = int(Path("/proc/loadavg").read_text("ascii").split()[3].split("/")[0])
        return max(0, running - 1 - _waiting_workers())
    return float("inf")


def _waiting_workers() -> int:
    """Return how many threads of libraries in this process are running now.

    Those of BLAS keep running for a while after their work is done, in the hope of more: they are
    no reason to leave a core idle.  Python's own threads are.
    """
    known = {str(thread.native_id) for thread in threading.enumerate()}
    count = 0
    for task in Path("/proc/self/task").iterdir():
        if task.name not in known:
            with contextlib.suppress(OSError):  # it may have ended
                count += (task / "stat").read_text("utf-8").rpartition(")")[2].split()[0] == "R"
    return count


@contextlib.contextmanager
def within_free_cores() -> Iterator[None]:
    """Let BLAS and OpenMP use no more threads than there are free cores, meanwhile."""
    from threadpoolctl import threadpool_info, threadpool_limits

    now = max((library["num_threads"] for library in threadpool_info()), default=1)
    with threadpool_limits(limits=min(now, free_cores())):
        yield


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Let BLAS and OpenMP use one thread in this thread, meanwhile."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def side_by_side(tasks: Sequence[Callable[[], Result]]) -> Iterator[Result]:
    """Yield the results of the tasks in order, each computed by one of the free cores.

    Long series of small operations are faster so than if each operation is split across threads.
    """
    count = min(free_cores(), len(tasks))
    with one_thread_each():
        if count <= 1:
            for task in tasks:
                yield task()
            return
        # OpenMP has a number of threads for each thread that calls it.
        with ThreadPoolExecutor(count, "shiftproof", initializer=_stay_alone) as pool:
            yield from pool.map(_result, tasks)


def _stay_alone() -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1)  # as long as this thread lives


def _result(task: Callable[[], Result]) -> Result:
    return task()
