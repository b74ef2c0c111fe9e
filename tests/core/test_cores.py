"""Numbers of threads, and tasks side by side."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from _internals import core_cores as module, cores_side_by_side as side_by_side
from threadpoolctl import threadpool_info, threadpool_limits


@pytest.mark.parametrize(("limit", "count"), [("", 4), ("2", 2), ("8", 4), ("0", 4)])
def test_the_number_of_threads_does_not_depend_on_other_programs(monkeypatch, limit, count):
    monkeypatch.setattr(module, "cores", lambda: 4)
    monkeypatch.setenv(module.LIMIT, limit)
    assert module.allowed_threads() == count


@pytest.mark.parametrize("count", [1, 3])
def test_results_come_in_order_from_as_many_threads_as_cores(monkeypatch, count):
    monkeypatch.setattr(module, "allowed_threads", lambda: count)
    together = threading.Barrier(count)
    names = set()

    def task(number):
        def work():
            together.wait(timeout=20)  # only if so many run at the same time
            names.add(threading.get_ident())
            return number

        return work

    assert list(side_by_side([task(number) for number in range(6)])) == list(range(6))
    assert len(names) == count


@pytest.mark.parametrize("count", [1, 2])
def test_each_task_has_one_thread_and_what_was_before_comes_back(monkeypatch, count):
    monkeypatch.setattr(module, "allowed_threads", lambda: count)
    np.ones((2, 2)) @ np.ones((2, 2))  # loads BLAS

    def most():
        return max(library["num_threads"] for library in threadpool_info())

    with threadpool_limits(limits=3):
        assert list(side_by_side([most] * 4)) == [1] * 4
        assert most() == 3


def test_an_error_in_a_task_is_raised(monkeypatch):
    monkeypatch.setattr(module, "allowed_threads", lambda: 2)

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(side_by_side([lambda: 1, fail]))
