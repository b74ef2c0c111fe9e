import threading
import time

import pytest
from _internals import prefetch


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_come_in_order(workers):
    def slow_first(number):
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    assert list(prefetch(slow_first, range(20), workers)) == [n * n for n in range(20)]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_error_comes_where_its_result_would_have(workers):
    def third_fails(number):
        if number == 3:
            raise ValueError("three")
        return number

    seen = []
    with pytest.raises(ValueError, match="three"):
        seen.extend(prefetch(third_fails, range(9), workers))
    assert seen in ([0, 1, 2], [])
    taken = prefetch(third_fails, range(9), workers)
    assert [next(taken) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(taken)


@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_than_a_bounded_number_waits(workers):
    started = []
    results = prefetch(lambda n: started.append(n) or n, range(100), workers)
    for taken in range(10):
        next(results)
        time.sleep(0.01)
        assert len(started) <= taken + 1 + 2 * workers
    results.close()
    assert len(started) <= 10 + 2 * workers


def test_several_work_at_once_and_closing_ends_them():
    together = threading.Barrier(3, timeout=10)
    results = prefetch(lambda n: together.wait() is not None, range(3), 3)
    assert next(results)
    results.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("prefetch")]


def test_nothing_is_done_before_it_is_asked_for():
    done = []
    results = prefetch(done.append, range(3), 2)
    time.sleep(0.02)
    assert done == []
    results.close()
