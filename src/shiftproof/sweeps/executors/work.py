"""Functions shared by all worker processes."""

from __future__ import annotations

import contextlib
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping

from torch import Tensor

from shiftproof.core.errors import RunConflict, ShiftproofError
from shiftproof.sweeps.executors.base import Event
from shiftproof.sweeps.jobs import Job
from shiftproof.training.config import RunConfig
from shiftproof.training.interrupt import stopping_signals
from shiftproof.training.loop import RunResult
from shiftproof.training.observers import Observer
from shiftproof.training.records import shown_measure

# Interval at which a run reports its step, and the driver polls.
POLL_SECONDS = 1.0


def outcome(job: Job, work: Callable[[], RunResult]) -> Event:
    """Run a job; return an event with its final status, or why it failed."""
    try:
        result = work()
    except RunConflict as error:
        # Another process, whose driver was killed and which is about to end, still holds the run.
        time.sleep(POLL_SECONDS)
        return Event("failed", job, status="died", reason=str(error))
    except Exception as error:
        return failure(job, error)
    accuracy = shown_measure(result.records[-1])[1] if result.records else {}
    return Event("ended", job, result.step, result.status, result.seconds, dict(accuracy))


@contextlib.contextmanager
def without_signals() -> Iterator[None]:
    """Ignore `stopping_signals` between runs; a run handles them and stops.

    The driver decides when a process ends.  (Not SIG_IGN: Python complains about a signal that
    arrives while its handler is removed.)
    """
    numbers = stopping_signals()
    before = [signal.signal(number, lambda number, frame: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def failure(job: Job, error: BaseException) -> Event:
    """Return a failure event: a one-line reason, and the traceback if the user did not cause it."""
    if isinstance(error, ShiftproofError):
        return Event("failed", job, reason=str(error))
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return Event("failed", job, reason=reason, trace="".join(traceback.format_exception(error)))


class StepReporter(Observer):
    """Calls ``report`` with the step at the start of a run, and about once a second."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._reported = time.monotonic()

    def begin(self, config: RunConfig, step: int) -> None:
        """Report the first step."""
        self._report(step)

    def step(self, step: int, measured: Mapping[str, Tensor | float]) -> None:
        """Report the step about once a second."""
        now = time.monotonic()
        if now - self._reported >= POLL_SECONDS:
            self._reported = now
            self._report(step)
