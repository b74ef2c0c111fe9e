"""What every worker process does with a job."""

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

# How often a run reports its step, and the driver looks at the clock.
POLL_SECONDS = 1.0


def outcome(job: Job, work: Callable[[], RunResult]) -> Event:
    """Run a job; return how it ended, or why it failed."""
    try:
        result = work()
    except RunConflict as error:
        # Another process still holds the run: its driver was killed, and it is about to end.
        time.sleep(POLL_SECONDS)
        return Event("failed", job, status="died", reason=str(error))
    except Exception as error:
        return failure(job, error)
    accuracy = shown_measure(result.records[-1])[1] if result.records else {}
    return Event("ended", job, result.step, result.status, result.seconds, dict(accuracy))


@contextlib.contextmanager
def without_signals() -> Iterator[None]:
    """Ignore what asks to stop (`stopping_signals`), except that a run, which handles them, stops.

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
    """Return the failure of a job: one line, and the trace if the user did not cause it."""
    if isinstance(error, ShiftproofError):
        return Event("failed", job, reason=str(error))
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return Event("failed", job, reason=reason, trace="".join(traceback.format_exception(error)))


class StepReporter(Observer):
    """Calls ``report`` with the step at the beginning of a run, and about once a second."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._reported = time.monotonic()

    def begin(self, config: RunConfig, step: int) -> None:
        """Report the first step."""
        self._report(step)

    def step(self, step: int, measured: Mapping[str, Tensor | float]) -> None:
        """Report about once a second."""
        now = time.monotonic()
        if now - self._reported >= POLL_SECONDS:
            self._reported = now
            self._report(step)
