"""Split a long series of small operations across threads.

torch splits each operation across its threads, which wait for each other after each operation.  A
long series of small operations is faster if every thread runs a part of the series by itself.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply `work` to each item in as many threads as torch uses; return the results in order."""
    count = torch.get_num_threads()
    if count == 1 or len(items) == 1:
        return [work(item) for item in items]
    return list(_workers(count).map(work, items))


@functools.cache
def _workers(count: int) -> ThreadPoolExecutor:
    ready = threading.Barrier(count + 1)
    before = torch.get_num_threads()

    def begin() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # without this call, torch would set the number later
        ready.wait()

    pool = ThreadPoolExecutor(count, "shiftproof", initializer=begin)
    for _ in range(count):
        pool.submit(int)  # each call starts one more worker
    ready.wait()
    torch.set_num_threads(before)  # the workers have changed it
    return pool
