"""Work done ahead of its use by a few threads, in order and in bounded memory."""

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
    """Yield ``function`` of each argument, in order, computed by ``workers`` threads ahead of time.

    At most 2 · ``workers`` results wait to be taken, so memory is bounded.  With no worker each is
    computed when it is asked for.  An error comes up where its result would have.

    Threads, not processes: decoding and resizing images release the interpreter's lock, and
    nothing has to be copied, forked or cleaned up after a kill.
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
                del result  # while the consumer is at work, it holds the only copy
        finally:
            for future in waiting:
                future.cancel()
