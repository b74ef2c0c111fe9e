"""The interface of executors, which run jobs and report events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shiftproof.sweeps.jobs import Job
from shiftproof.sweeps.store import SweepFolder

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


class Executor(ABC):
    """A place where jobs are run."""

    # Threads per run, as far as known before its memory is measured.
    threads: int = 1

    @abstractmethod
    def workers(self, jobs: Sequence[Job], memory: int) -> int:
        """Return how many of the jobs run at once; ``memory`` is the memory of one job in bytes."""

    @abstractmethod
    def run(
        self, jobs: Sequence[Job], folder: SweepFolder, listener: Listener, memory: int
    ) -> None:
        """Run jobs with their files in ``folder``, and return when all have ended.

        When ``listener`` returns True, the runs stop after their current step and save a
        checkpoint.
        """


class WorkerPool(ABC):
    """The workers of one sweep, local or remote."""

    @abstractmethod
    def busy(self) -> bool:
        """Whether any worker has a job."""

    @abstractmethod
    def has_room(self) -> bool:
        """Whether a worker is free."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Give a job to a worker."""

    @abstractmethod
    def poll(self) -> list[Event]:
        """Wait briefly, and return new events."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all workers to stop after their step; may be called several times."""

    @abstractmethod
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
