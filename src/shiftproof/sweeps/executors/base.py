"""The interface of executors, which run jobs and report events, and what their workers share."""

from __future__ import annotations

import contextlib
import signal
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from torch import Tensor

from shiftproof.core.errors import RunConflict, ShiftproofError
from shiftproof.sweeps.jobs import Job
from shiftproof.sweeps.store import SweepFolder
from shiftproof.training.config import RunConfig
from shiftproof.training.interrupt import stopping_signals
from shiftproof.training.loop import RunResult
from shiftproof.training.observers import Observer
from shiftproof.training.records import shown_measure

Kind = Literal["started", "progress", "ended", "failed"]
# A job fails after its process has died this many times.
MOST_DEATHS = 3


@dataclass(frozen=True)
class Event:
    """Something that happened to a job.

    ``progress`` carries the current ``step``; ``ended`` the ``status`` (finished, diverged or
    stopped) and the ``seconds`` of the job; ``failed`` the ``reason``.  A job that failed with the
    status ``died`` (its process ended, perhaps because of the job) or ``lost`` (its machine is
    gone) can be retried.
    """

    kind: Kind
    job: Job
    step: int = 0
    status: str = ""
    seconds: float = 0.0
    accuracy: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    trace: str = ""


# Called with every event; returns whether to stop.
Listener = Callable[[Event | None], bool]


class Executor(Protocol):
    """A place where jobs are run."""

    # Threads per run, as far as known before its memory is measured.
    threads: int = 1

    def workers(self, jobs: Sequence[Job], memory: int) -> int:
        """Return how many of the jobs run at once; ``memory`` is the memory of one job in bytes."""

    def run(
        self, jobs: Sequence[Job], folder: SweepFolder, listener: Listener, memory: int
    ) -> None:
        """Run jobs with their files in ``folder``, and return when all have ended.

        When ``listener`` returns True, the runs stop after their current step and save a
        checkpoint.
        """


class WorkerPool(Protocol):
    """The workers of one sweep, local or remote."""

    def busy(self) -> bool:
        """Whether any worker has a job."""

    def has_room(self) -> bool:
        """Whether a worker is free."""

    def submit(self, job: Job) -> None:
        """Give a job to a worker."""

    def poll(self) -> list[Event]:
        """Wait briefly, and return new events."""

    def stop(self) -> None:
        """Ask all workers to stop after their step; may be called several times."""

    def close(self) -> None:
        """End all work at once."""


def run_jobs(pool: WorkerPool, jobs: Sequence[Job], listener: Listener) -> None:
    """Run all jobs; retry a job whose process or machine died."""
    waiting = deque(jobs)
    deaths: Counter[str] = Counter()
    stopping = False
    try:
        while waiting or pool.busy():
            while waiting and not stopping and pool.has_room():
                pool.submit(waiting.popleft())
            if stopping:
                waiting.clear()
                pool.stop()
            for event in pool.poll():
                if event.kind == "failed" and event.status in ("died", "lost"):
                    deaths[event.job.id] += event.status == "died"
                    if deaths[event.job.id] < MOST_DEATHS:
                        waiting.append(event.job)
                        continue
                if event.status == "stopped" and not (stopping := stopping or listener(None)):
                    waiting.append(event.job)  # something else stopped it
                    continue
                stopping |= listener(event)
            stopping |= listener(None)
    finally:
        pool.close()


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
