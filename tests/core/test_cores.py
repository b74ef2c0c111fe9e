"""Free cores, and tasks side by side."""

from __future__ import annotations

import _thread
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from _internals import (
    core_cores as module,
    cores_side_by_side as side_by_side,
    free_cores,
    within_free_cores,
)
from threadpoolctl import threadpool_info, threadpool_limits


@pytest.mark.parametrize(
    ("load", "running", "limit", "free"),
    [
        (0.1, 0, "", 4),
        (2.2, 2, "", 2),
        (9.0, 9, "", 1),  # never none
        (3.0, 0, "", 4),  # a program that has just ended
        (0.0, 3, "", 4),  # a moment of another program
        (0.0, 0, "2", 2),
        (0.0, 0, "8", 4),
    ],
)
def test_free_cores_are_those_that_nobody_uses(monkeypatch, load, running, limit, free):
    monkeypatch.setattr(module, "cores", lambda: 4)
    monkeypatch.setattr(module, "_load", lambda: load)
    monkeypatch.setattr(module, "_running", lambda: running)
    monkeypatch.setenv(module.LIMIT, limit)
    assert free_cores() == free


def test_the_system_says_how_many_are_running():
    assert module._running() >= 0
    assert module.cores() >= 1


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not say")
@pytest.mark.parametrize("of_python", [True, False])
def test_threads_of_libraries_leave_their_cores_free(monkeypatch, of_python):
    """As those of BLAS, which wait for more work by running on; a thread of Python works."""
    started, stop = threading.Event(), threading.Event()

    def work():
        started.set()
        while not stop.is_set():
            zlib.crc32(bytes(1 << 22))  # runs without Python's lock

    if of_python:
        threading.Thread(target=work, daemon=True).start()
    else:
        _thread.start_new_thread(work, ())  # not known to `threading`, like one of a library
    started.wait()
    before = set(threading.enumerate())
    try:
        seen = {module._waiting_workers()}
        end = time.monotonic() + 20
        # It waits for Python's lock now and then.
        while not of_python and 1 not in seen and time.monotonic() < end:
            seen.add(module._waiting_workers())
    finally:
        stop.set()
    assert set(threading.enumerate()) == before
    assert max(seen) == (0 if of_python else 1)


@pytest.mark.parametrize("count", [1, 3])
def test_results_come_in_order_from_as_many_threads_as_cores(monkeypatch, count):
    monkeypatch.setattr(module, "free_cores", lambda: count)
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
    monkeypatch.setattr(module, "free_cores", lambda: count)
    np.ones((2, 2)) @ np.ones((2, 2))  # loads BLAS

    def most():
        return max(library["num_threads"] for library in threadpool_info())

    with threadpool_limits(limits=3):
        assert list(side_by_side([most] * 4)) == [1] * 4
        assert most() == 3


def test_a_library_uses_no_more_threads_than_free_cores(monkeypatch):
    np.ones((2, 2)) @ np.ones((2, 2))  # loads BLAS

    def most():
        return max(library["num_threads"] for library in threadpool_info())

    with threadpool_limits(limits=3):
        monkeypatch.setattr(module, "free_cores", lambda: 2)
        with within_free_cores():
            assert most() == 2
        monkeypatch.setattr(module, "free_cores", lambda: 8)
        with within_free_cores():  # never more than before
            assert most() == 3
        assert most() == 3


def test_an_error_in_a_task_is_raised(monkeypatch):
    monkeypatch.setattr(module, "free_cores", lambda: 2)

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(side_by_side([lambda: 1, fail]))
