"""Compute results ahead of use in a few threads, in order and with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")


def prefetch(
    function: Callable[[A], R], arguments: Iterable[A], workers: int
) -> Generator[R, None, None]:
    """Yield `function` of each argument, in order, computed by `workers` threads ahead of time.

    At most 2 · `workers` results are kept, so memory is bounded.  Without workers, each result is
    computed when it is requested.  An error is raised where its result would be yielded.

    Threads are used rather than processes: decoding and resizing images release the interpreter's
    lock, and nothing has to be copied, forked or cleaned up after a kill.
    """
    if workers == 0:
        yield from map(function, arguments)
        return
    remaining = iter(arguments)
    with ThreadPoolExecutor(workers, thread_name_prefix="prefetch") as pool:
        waiting: deque[Future[R]] = deque()
        try:
            waiting.extend(pool.submit(function, item) for item in islice(remaining, 2 * workers))
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(remaining, 1))
                yield result
                del result  # so that only the consumer holds a reference while it works
        finally:
            for future in waiting:
                future.cancel()
