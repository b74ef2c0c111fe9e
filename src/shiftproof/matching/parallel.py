"""A few threads that compute side by side, each of them alone.

torch shares every single operation among its threads, which meet again after each; a long series of
small ones is better dealt out as a whole.  The workers here use one thread each, so that none of
torch's own wait, and spin, meanwhile.
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
    """Return ``work`` of each item, in order; by as many threads as torch uses."""
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
        torch.get_num_threads()  # torch sets a thread up at its first question, once and for all
        ready.wait()

    pool = ThreadPoolExecutor(count, "shiftproof", initializer=begin)
    for _ in range(count):
        pool.submit(int)  # each brings one more worker into being
    ready.wait()
    torch.set_num_threads(before)  # of the caller, and of threads to come
    return pool
